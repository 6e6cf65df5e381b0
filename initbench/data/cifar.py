"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), through torchvision."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from initbench.data.dataset import Splits
from initbench.data.load import data_root
from initbench.data.prepare import images, prepare_published
from initbench.data.published import download, read_published
from initbench.errors import DataError
from initbench.registry import register_dataset

_PAPER = "Krizhevsky, 2009, Learning Multiple Layers of Features from Tiny Images"
# The published checksums of the archives, cifar-10-python.tar.gz and cifar-100-python.tar.gz.
CIFAR10 = "md5:c58f30108f718f92721af3b95e74349a"
CIFAR100 = "md5:eb9058c3a382ffc7106e4002c42a8d85"


@register_dataset("cifar10", describe=images((3, 32, 32), 10, CIFAR10), reference=_PAPER)
def cifar10(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Colour images of objects, 3×32×32, 10 classes: 50,000 for training and validation, 10,000 for test.

    Standardized by the training mean and deviation of each channel. The files are read from the data root, and
    downloaded into it on first use.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 32.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: a file is missing, unreadable or different from the published one.
    """
    return _cifar(10, train_size, image_size, validation_size)


@register_dataset("cifar100", describe=images((3, 32, 32), 100, CIFAR100), reference=_PAPER)
def cifar100(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Colour images of objects, 3×32×32, 100 classes (the fine labels): sizes and preparation as in cifar10.

    Standardized by the training mean and deviation of each channel. The files are read from the data root, and
    downloaded into it on first use.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 32.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size exceeds the data.
        DataError: a file is missing, unreadable or different from the published one.
    """
    return _cifar(100, train_size, image_size, validation_size)


def _cifar(num_classes: int, train_size: int | None, image_size: int | None, validation_size: int) -> Splits:
    from torchvision import datasets

    name, root = f"cifar{num_classes}", data_root()
    source = getattr(datasets, name.upper())
    files = _files(source)
    download(
        name,
        root,
        present=lambda: all((root / file).is_file() for file in files),
        fetch=lambda: _fetch(name, source, root),
        instructions=f"put {source.filename} ({source.url}) into {root}",
    )
    try:
        train, test = (_arrays(source(str(root), train=train)) for train in (True, False))
    except (RuntimeError, OSError) as error:  # torchvision does not say which files are missing or corrupted
        for file, published in files.items():
            read_published(name, root / file, published)
        raise DataError(f"{name}: the files in {root} cannot be read ({error})") from error
    return prepare_published(
        name, train, test, train_size=train_size, image_size=image_size, validation_size=validation_size
    )


def _files(source: Any) -> dict[str, str]:
    """Return the published files, relative to the data root, with the checksums that torchvision verifies."""
    listed = [*source.train_list, *source.test_list, (source.meta["filename"], source.meta["md5"])]
    return {f"{source.base_folder}/{name}": f"md5:{checksum}" for name, checksum in listed}


def _fetch(name: str, source: Any, root: Path) -> None:
    """Unpack the archive, downloading it unless it is in the root; each file appears only when it is complete."""
    from torchvision.datasets.utils import download_url, extract_archive

    with tempfile.TemporaryDirectory(dir=root) as temporary:
        archive = root / source.filename
        if archive.is_file():
            read_published(name, archive, f"md5:{source.tgz_md5}", decompress=False)
        else:
            archive = Path(temporary) / source.filename
            download_url(source.url, temporary, source.filename, source.tgz_md5)
        extract_archive(str(archive), temporary)
        (root / source.base_folder).mkdir(exist_ok=True)
        for file in _files(source):
            (Path(temporary) / file).replace(root / file)


def _arrays(dataset: Any) -> tuple[Tensor, Tensor]:
    """Return images, uint8 (N, 3, 32, 32), and class indices (N,)."""
    return torch.from_numpy(dataset.data).permute(0, 3, 1, 2), torch.tensor(dataset.targets)
