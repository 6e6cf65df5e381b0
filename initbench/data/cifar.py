"""CIFAR-10 (Krizhevsky, 2009), through torchvision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from initbench.data.dataset import Dataset  # noqa: TC001 - the registry reads the annotations at run time
from initbench.data.download import download
from initbench.data.load import data_root
from initbench.data.prepare import check_sizes, hold_out_validation, prepare, take_first
from initbench.registry import register_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"


@register_dataset(
    "cifar10",
    input_shape=(3, 32, 32),
    num_classes=10,
    reference="Krizhevsky, 2009, Learning Multiple Layers of Features from Tiny Images",
)
def cifar10(train_size: int | None = None, image_size: int | None = None, validation_size: int = 5000) -> Dataset:
    """Colour images of objects, 3×32×32, 10 classes: 50,000 for training and validation, 10,000 for test.

    Standardized by the training mean and deviation of each channel. The files are read from the data root, and
    downloaded into it on first use.

    Args:
        train_size: size of a stratified subset of the training split; null for all.
        image_size: side of the resized images; null for 32.
        validation_size: samples held out of the training set; 0 to train on all.

    Raises:
        ValueError: a size is impossible.
        DataError: the files are missing or unreadable.
    """
    check_sizes(train_size, image_size, validation_size)
    root = data_root()
    download(
        "cifar10",
        root,
        present=lambda: _is_complete(root),
        fetch=lambda: _open(root, train=True, fetch=True),
        instructions=f"put cifar-10-python.tar.gz ({URL}) into {root}",
    )
    images, targets = _arrays(_open(root, train=True))
    train, validation = hold_out_validation(targets, validation_size)
    train = take_first(train, train_size)
    return prepare(
        "cifar10",
        (images[train], targets[train]),
        (images[validation], targets[validation]),
        _arrays(_open(root, train=False)),
        num_classes=10,
        image_size=image_size,
    )


def _open(root: Path, *, train: bool, fetch: bool = False) -> Any:
    from torchvision.datasets import CIFAR10

    return CIFAR10(str(root), train=train, download=fetch)


def _is_complete(root: Path) -> bool:
    """Return whether all files have the published checksums, which torchvision verifies."""
    try:
        _open(root, train=False)
    except RuntimeError:
        return False
    return True


def _arrays(dataset: Any) -> tuple[Tensor, Tensor]:
    """Return images, uint8 (N, 3, 32, 32), and class indices (N,)."""
    return torch.from_numpy(dataset.data).permute(0, 3, 1, 2), torch.tensor(dataset.targets)
