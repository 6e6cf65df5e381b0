"""Random inputs and labels: nothing to learn, for probes and tests."""

from __future__ import annotations

import torch

from initbench.data.dataset import Dataset, Split
from initbench.data.prepare import SPLIT_SEED
from initbench.registry import register_dataset


@register_dataset("gaussian", input_shape=(3, 32, 32), num_classes=10)
def gaussian(
    train_size: int = 512,
    *,
    image_size: int = 32,
    channels: int = 3,
    num_classes: int = 10,
    validation_size: int = 128,
    test_size: int = 128,
) -> Dataset:
    """Standard normal inputs with uniform random labels, the same for every trial.

    Args:
        train_size: training samples.
        image_size: height and width.
        channels: channels.
        num_classes: number of classes.
        validation_size: validation samples; may be 0.
        test_size: test samples.

    Raises:
        ValueError: a size is impossible.
    """
    least = {"train_size": 1, "image_size": 1, "channels": 1, "num_classes": 1, "validation_size": 0, "test_size": 1}
    given = (train_size, image_size, channels, num_classes, validation_size, test_size)
    for (name, bound), value in zip(least.items(), given, strict=True):
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    shape = (channels, image_size, image_size)
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    train, validation, test = (
        Split(torch.randn(n, *shape, generator=generator), torch.randint(num_classes, (n,), generator=generator))
        for n in (train_size, validation_size, test_size)
    )
    return Dataset("gaussian", train, validation, test, num_classes, shape)
