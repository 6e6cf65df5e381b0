"""Fashion-MNIST (Xiao, Rasul & Vollgraf, 2017), from its IDX files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch import Tensor

from initbench.data.content import combined
from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.prepare import images, prepare_published
from initbench.data.published import download, read_published
from initbench.registry import register_dataset

# The Debian package dataset-fashion-mnist installs the files here.
SYSTEM_FOLDER = Path("/usr/share/datasets/fashion-mnist")
# The files, and the SHA-256 of each after decompression, because gzip headers contain times.
FILES = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


@register_dataset(
    "fashion_mnist",
    describe=images((1, 28, 28), 10, combined(FILES)),
    reference="Xiao, Rasul & Vollgraf, 2017 (arXiv 1708.07747)",
)
def fashion_mnist(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Grey images of clothes, 1×28×28, 10 classes: 60,000 for training and validation, 10,000 for test.

    Standardized by the training mean and deviation. The files are read from the data root or from the Debian package
    dataset-fashion-mnist, and downloaded if neither has them.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 28.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: a file is missing, unreadable or different from the published one.
    """
    root = data_root()
    folder = root / "FashionMNIST" / "raw"
    download(
        "fashion_mnist",
        root,
        present=lambda: _find(folder) is not None,
        fetch=lambda: _fetch(root, folder),
        instructions=f"put {', '.join(f'{name}.gz' for name in FILES)} into {folder}, "
        "or install the Debian package dataset-fashion-mnist",
    )
    paths = _find(folder)
    assert paths is not None
    images, targets, test_images, test_targets = (
        _array(read_published("fashion_mnist", path, f"sha256:{published}"))
        for path, published in zip(paths, FILES.values(), strict=True)
    )
    return prepare_published(
        "fashion_mnist",
        (images.unsqueeze(1), targets),
        (test_images.unsqueeze(1), test_targets),
        train_size=train_size,
        image_size=image_size,
        validation_size=validation_size,
    )


def _array(content: bytes) -> Tensor:
    """Return the unsigned bytes of an IDX file, because torchvision reads neither bytes nor gzipped files.

    The file has two zero bytes, the type, the number of dimensions, the size of each as a big-endian 32-bit integer,
    and the values.
    """
    header = 4 + 4 * content[3]
    shape = [int.from_bytes(content[i : i + 4], "big") for i in range(4, header, 4)]
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header).reshape(shape)


def _find(folder: Path) -> list[Path] | None:
    """Return the paths of the four files, plain or gzipped, in the first folder that has them all."""
    for directory in (folder, SYSTEM_FOLDER):
        paths = [directory / f"{name}{suffix}" for name in FILES for suffix in ("", ".gz")]
        by_name = {path.name.removesuffix(".gz"): path for path in reversed(paths) if path.is_file()}
        if len(by_name) == len(FILES):
            return [by_name[name] for name in FILES]
    return None


def _fetch(root: Path, folder: Path) -> None:
    """Download the files; each appears in the folder only when it is complete."""
    from torchvision.datasets import FashionMNIST

    with tempfile.TemporaryDirectory(dir=root) as temporary:
        FashionMNIST(temporary, download=True)
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (Path(temporary) / "FashionMNIST" / "raw" / name).replace(folder / name)
