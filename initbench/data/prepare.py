"""From raw images to `Splits`: stratified subsets, resizing and standardization, the same for every dataset."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from initbench.data.dataset import Samples, Split, Splits
from initbench.errors import ArgumentError, DataError
from initbench.inputs import Inputs
from initbench.registry import Description
from initbench.registry.traits import Describe

# Subsets do not depend on a trial's seed: every trial of a dataset has the same test and validation samples.
SPLIT_SEED = 20190710


def stratified_order(targets: Tensor, seed: int = SPLIT_SEED) -> Tensor:
    """Return a random permutation in which the classes are spread evenly.

    Every stretch of it contains each class in proportion, within two samples, so subsets are cut from it as slices.

    Args:
        targets: class indices, int64, (N,).
        seed: seed of the permutation.

    Returns:
        Sample indices, int64, (N,).
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(targets), generator=generator)
    position = torch.empty(len(targets), dtype=torch.float64)
    for label in torch.unique(targets):
        # The k-th of a class's n samples is at (k + 1/2) / n of the way; ties between classes are in random order.
        members = (targets[shuffled] == label).nonzero().flatten()
        position[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    return shuffled[position.argsort(stable=True)]


def check_sizes(train_size: int | None, image_size: int | None, validation_size: int = 0) -> None:
    """Refuse sizes that no dataset can have.

    Raises:
        ArgumentError: a size is too small.
    """
    check_split_sizes(train_size=train_size, image_size=image_size, validation_size=validation_size)


def check_split_sizes(**sizes: int | None) -> None:
    """Refuse the first size below 1; `validation_size` may be 0, and None is not checked."""
    for name, size in sizes.items():
        least = 0 if name == "validation_size" else 1
        if size is not None and size < least:
            raise ArgumentError(f"must be at least {least}, got {size}", name)


def hold_out_validation(targets: Tensor, validation_size: int) -> tuple[Tensor, Tensor]:
    """Return stratified indices of the training and validation samples.

    Args:
        targets: class indices of the published training set, int64, (N,).
        validation_size: number of samples to hold out; 0 to train on all.

    Raises:
        ArgumentError: nothing would be left to train on.
    """
    if validation_size >= len(targets):
        raise ArgumentError(f"must be less than {len(targets)}, got {validation_size}", "validation_size")
    order = stratified_order(targets)
    return order[validation_size:], order[:validation_size]


def take_first(order: Tensor, size: int | None, argument: str = "train_size") -> Tensor:
    """Return the first `size` indices, all for None; smaller subsets are parts of larger ones.

    Args:
        order: indices, 1-dim.
        size: number of indices.
        argument: the user's name for the size.

    Raises:
        ArgumentError: there are too few indices.
    """
    if size is not None and size > len(order):
        raise ArgumentError(f"must be at most {len(order)}, got {size}", argument)
    return order[:size]


def prepare_published(
    name: str,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    *,
    train_size: int | None,
    image_size: int | None,
    validation_size: int,
) -> Splits:
    """Hold validation samples out of the published training set, take a subset of the rest, and `prepare` them.

    Args:
        name: the registered name.
        train: the published training set, images (N, C, H, W) of any real type and class indices (N,).
        test: the published test set, likewise.
        train_size: size of the stratified subset to train on; None for all.
        image_size: side of the resized images; None to keep their size.
        validation_size: number of samples to hold out; 0 to train on all.

    Raises:
        ArgumentError: there are too few samples.
        DataError: a channel of the training images is constant.
    """
    images, targets = train
    kept, held_out = hold_out_validation(targets, validation_size)
    kept = take_first(kept, train_size)
    return prepare(
        name,
        (images[kept], targets[kept]),
        (images[held_out], targets[held_out]),
        test,
        image_size=image_size,
    )


def prepare(
    name: str,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    *,
    image_size: int | None,
) -> Splits:
    """Resize, standardize by the training split's mean and deviation per channel, and return the splits.

    Args:
        name: the registered name.
        train: images (N, C, H, W) of any real type, and class indices (N,).
        validation: likewise.
        test: likewise.
        image_size: side of the images after antialiased bilinear resizing; None to keep their size.

    Raises:
        DataError: a channel of the training images is constant.
    """
    resized = [_resize(images, image_size) for images, _ in (train, validation, test)]
    deviation, mean = torch.std_mean(resized[0], (0, 2, 3), correction=0, keepdim=True)
    if not deviation.all():
        raise DataError(f"{name}: a channel of the {len(resized[0])} training images is constant")
    splits: list[Samples] = []
    for inputs, (images, targets) in zip(resized, (train, validation, test), strict=True):
        inputs.sub_(mean).div_(deviation)
        if images.dtype == torch.uint8 and image_size is None:
            splits.append(ImagesFromBytes(inputs, targets.long(), mean, deviation))
        else:
            splits.append(Split(inputs, targets.long()))
    return Splits(*splits)


@dataclass(frozen=True)
class ImagesFromBytes(Split):
    """Standardized images whose pixels were bytes. A GPU, which trials may share, holds them as bytes.

    Attributes:
        mean: the mean that was subtracted from the pixels, float32 (1, C, 1, 1).
        deviation: the standard deviation by which they were then divided, float32 (1, C, 1, 1).
    """

    mean: Tensor
    deviation: Tensor

    def to(self, device: torch.device | str) -> Samples:
        """Return the split on a device; the images that `take` returns are the same bit for bit."""
        if torch.device(device).type == "cpu":
            return self
        pixels = (self.inputs * self.deviation).add_(self.mean).round_().to(torch.uint8)  # exact: off by at most 1e-4
        return _ImagesAsBytes(*(tensor.to(device) for tensor in (self.targets, pixels, self.mean, self.deviation)))


@dataclass(frozen=True)
class _ImagesAsBytes(Samples):
    targets: Tensor
    pixels: Tensor
    mean: Tensor
    deviation: Tensor

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape[1:])

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        inputs = self.pixels[samples].to(torch.float32).sub_(self.mean).div_(self.deviation)
        return inputs, self.targets[samples]

    def to(self, device: torch.device | str) -> _ImagesAsBytes:
        return _ImagesAsBytes(*(tensor.to(device) for tensor in (self.targets, self.pixels, self.mean, self.deviation)))


def _resize(images: Tensor, size: int | None) -> Tensor:
    copy = images.to(torch.float32, copy=True)
    if size is None:
        return copy
    return functional.interpolate(copy, size=(size, size), mode="bilinear", antialias=True, align_corners=False)


def images(shape: tuple[int, int, int], classes: int, content: str | None = None) -> Describe:
    """Return the `describe` function of an image dataset with the arguments of `check_sizes`."""

    def describe(*, train_size: int | None, image_size: int | None, validation_size: int = 0) -> Description:
        check_sizes(train_size, image_size, validation_size)
        channels, height, width = shape
        return Description(Inputs((channels, image_size or height, image_size or width)), classes, content)

    return describe
