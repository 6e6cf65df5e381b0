"""Fashion-MNIST (Xiao, Rasul & Vollgraf, 2017), from its IDX files."""

from __future__ import annotations

import tempfile
from pathlib import Path

from initbench.data.dataset import Splits  # noqa: TC001 - the registry reads the annotations at run time
from initbench.data.description import images
from initbench.data.download import download
from initbench.data.idx import read_idx
from initbench.data.load import data_root
from initbench.data.prepare import check_sizes, prepare_published
from initbench.registry import register_dataset

# Where the Debian package dataset-fashion-mnist installs the files.
SYSTEM_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@register_dataset(
    "fashion_mnist",
    describe=images((1, 28, 28), 10),
    reference="Xiao, Rasul & Vollgraf, 2017 (arXiv 1708.07747)",
)
def fashion_mnist(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Grey images of clothes, 1×28×28, 10 classes: 60,000 for training and validation, 10,000 for test.

    Standardized by the training mean and deviation. The files are read from the data root, else from the Debian
    package dataset-fashion-mnist, else downloaded.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 28.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size is impossible.
        DataError: the files are missing or unreadable.
    """
    check_sizes(train_size, image_size, validation_size)
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
    images, targets, test_images, test_targets = (read_idx(path) for path in paths)
    return prepare_published(
        "fashion_mnist",
        (images.unsqueeze(1), targets),
        (test_images.unsqueeze(1), test_targets),
        train_size=train_size,
        image_size=image_size,
        validation_size=validation_size,
    )


def _find(folder: Path) -> list[Path] | None:
    """Return the paths of the four files, plain or gzipped, in the first folder that has them all."""
    for place in (folder, SYSTEM_FOLDER):
        paths = [place / f"{name}{suffix}" for name in FILES for suffix in ("", ".gz")]
        found = {path.name.removesuffix(".gz"): path for path in reversed(paths) if path.is_file()}
        if len(found) == len(FILES):
            return [found[name] for name in FILES]
    return None


def _fetch(root: Path, folder: Path) -> None:
    """Download the files and move each into the folder when it is complete."""
    from torchvision.datasets import FashionMNIST

    with tempfile.TemporaryDirectory(dir=root) as temporary:
        FashionMNIST(temporary, download=True)
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (Path(temporary) / "FashionMNIST" / "raw" / name).replace(folder / name)
