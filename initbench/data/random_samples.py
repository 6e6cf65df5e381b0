"""Random samples, with nothing to learn: for probes, tests and smoke runs."""

from __future__ import annotations

import torch

from initbench.data.dataset import Split, Splits
from initbench.data.prepare import SPLIT_SEED, check_split_sizes
from initbench.errors import ArgumentError, UnknownNameError
from initbench.inputs import Inputs
from initbench.registry import TASKS, Description, register_dataset


def _describe_gaussian(*, image_size: int, channels: int, num_classes: int, **sizes: int) -> Description:
    check_split_sizes(**sizes, image_size=image_size, channels=channels, num_classes=num_classes)
    return Description(Inputs((channels, image_size, image_size)), num_classes)


@register_dataset("gaussian", describe=_describe_gaussian)
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
    """
    shape = (channels, image_size, image_size)
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    train, validation, test = (
        Split(torch.randn(n, *shape, generator=generator), torch.randint(num_classes, (n,), generator=generator))
        for n in (train_size, validation_size, test_size)
    )
    return Splits(train, validation, test)


def _describe(*, task: str, shape: tuple[int, ...], vocabulary: int | None, outputs: int, **sizes: int) -> Description:
    try:
        TASKS.get(task)
    except UnknownNameError as error:
        raise ArgumentError(f"must be a registered name: {error}", "task") from error
    check_split_sizes(outputs=outputs, **sizes)
    return Description(Inputs(shape, vocabulary), outputs, task=task)


@register_dataset("random", describe=_describe)
def random(
    task: str = "classification",
    shape: tuple[int, ...] = (3, 32, 32),
    vocabulary: int | None = None,
    outputs: int = 10,
    train_size: int = 512,
    validation_size: int = 128,
    test_size: int = 128,
) -> Splits:
    """The task's random batches as samples, the same for every trial: there is nothing to learn.

    A smoke run trains on them instead of the suite's data.

    Args:
        task: the task that defines the samples.
        shape: shape of one sample's inputs.
        vocabulary: number of different tokens; null if inputs are numbers.
        outputs: number of outputs that a model needs: classes, or tokens of a vocabulary.
        train_size: training samples.
        validation_size: validation samples; may be 0.
        test_size: test samples.

    Raises:
        UnknownNameError: no task of this name is registered.
    """
    inputs = Inputs(shape, vocabulary)
    made = TASKS.get(task).build({})
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    train, validation, test = (
        Split(*made.random_batch(inputs, outputs, size, generator)) for size in (train_size, validation_size, test_size)
    )
    return Splits(train, validation, test)
