"""Random inputs and labels: nothing to learn, for probes and tests."""

from __future__ import annotations

import torch

from initbench.data.dataset import Split, Splits
from initbench.data.prepare import SPLIT_SEED
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import Description, register_dataset


def _describe(*, image_size: int, channels: int, num_classes: int, **sizes: int) -> Description:
    _check(sizes | {"image_size": image_size, "channels": channels, "num_classes": num_classes})
    return Description(Inputs((channels, image_size, image_size)), num_classes)


@register_dataset("gaussian", describe=_describe)
def gaussian(
    train_size: int = 512,
    *,
    image_size: int = 32,
    channels: int = 3,
    num_classes: int = 10,
    validation_size: int = 128,
    test_size: int = 128,
) -> Splits:
    """Standard normal inputs with uniform random labels, the same for every trial.

    Args:
        train_size: training samples.
        image_size: height and width.
        channels: channels.
        num_classes: number of classes.
        validation_size: validation samples; may be 0.
        test_size: test samples.

    Raises:
        ArgumentError: a size is impossible.
    """
    _check({"train_size": train_size, "validation_size": validation_size, "test_size": test_size})
    shape = (channels, image_size, image_size)
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    train, validation, test = (
        Split(torch.randn(n, *shape, generator=generator), torch.randint(num_classes, (n,), generator=generator))
        for n in (train_size, validation_size, test_size)
    )
    return Splits(train, validation, test)


def _check(sizes: dict[str, int]) -> None:
    """Raise an ArgumentError where a size is impossible."""
    for name, value in sizes.items():
        least = 0 if name == "validation_size" else 1
        if value < least:
            raise ArgumentError(f"must be at least {least}, got {value}", name)
