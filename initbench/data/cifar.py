"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), through torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from initbench.data.dataset import Splits  # noqa: TC001 - the registry reads the annotations at run time
from initbench.data.description import images
from initbench.data.download import download
from initbench.data.load import data_root
from initbench.data.prepare import check_sizes, prepare_published
from initbench.registry import register_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_PAPER = "Krizhevsky, 2009, Learning Multiple Layers of Features from Tiny Images"


@register_dataset("cifar10", describe=images((3, 32, 32), 10), reference=_PAPER)
def cifar10(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Colour images of objects, 3×32×32, 10 classes: 50,000 for training and validation, 10,000 for test.

    Standardized by the training mean and deviation of each channel. The files are read from the data root, and
    downloaded into it on first use.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 32.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size is impossible.
        DataError: the files are missing or unreadable.
    """
    return _cifar(10, train_size, image_size, validation_size)


@register_dataset("cifar100", describe=images((3, 32, 32), 100), reference=_PAPER)
def cifar100(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Splits:
    """Colour images of objects, 3×32×32, 100 classes (the fine labels): sizes and preparation as of cifar10.

    Standardized by the training mean and deviation of each channel. The files are read from the data root, and
    downloaded into it on first use.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 32.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ArgumentError: a size is impossible.
        DataError: the files are missing or unreadable.
    """
    return _cifar(100, train_size, image_size, validation_size)


def _cifar(num_classes: int, train_size: int | None, image_size: int | None, validation_size: int) -> Splits:
    check_sizes(train_size, image_size, validation_size)
    name, root = f"cifar{num_classes}", data_root()
    archive = f"cifar-{num_classes}-python.tar.gz"
    download(
        name,
        root,
        present=lambda: _is_complete(name, root),
        fetch=lambda: _open(name, root, train=True, fetch=True),
        instructions=f"put {archive} (https://www.cs.toronto.edu/~kriz/{archive}) into {root}",
    )
    return prepare_published(
        name,
        _arrays(_open(name, root, train=True)),
        _arrays(_open(name, root, train=False)),
        train_size=train_size,
        image_size=image_size,
        validation_size=validation_size,
    )


def _open(name: str, root: Path, *, train: bool, fetch: bool = False) -> Any:
    from torchvision import datasets

    return getattr(datasets, name.upper())(str(root), train=train, download=fetch)


def _is_complete(name: str, root: Path) -> bool:
    """Return whether all files have the published checksums, which torchvision verifies."""
    try:
        _open(name, root, train=False)
    except RuntimeError:
        return False
    return True


def _arrays(dataset: Any) -> tuple[Tensor, Tensor]:
    """Return images, uint8 (N, 3, 32, 32), and class indices (N,)."""
    return torch.from_numpy(dataset.data).permute(0, 3, 1, 2), torch.tensor(dataset.targets)
