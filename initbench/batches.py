"""Batches for what needs some at initialization: probes and tuners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError

Batch = tuple[Tensor, Tensor]
LossFunction = Callable[[Tensor, Tensor], Tensor]
DataKind = Literal["random", "real"]
RealBatches = Callable[[int, torch.Generator], Iterator[Batch]]
"""Called with the batch size and a CPU generator for the order; returns batches of (inputs, targets)."""


def random_batches(input_shape: tuple[int, ...], num_classes: int, generator: torch.Generator) -> Iterator[Batch]:
    """Yield batches of noise without end: inputs ~ N(0, 1), targets uniform over the classes, independent of them.

    They are what MetaInit tunes with (Dauphin & Schoenholz, 2019, Figure 2) and are drawn on the CPU in float32, so
    that every device and precision sees the same.

    Args:
        input_shape: (batch, ...), for images (batch, channels, height, width).
        num_classes: number of classes.
        generator: a CPU generator.
    """
    while True:
        inputs = torch.randn(input_shape, generator=generator, dtype=torch.float32)
        targets = torch.randint(num_classes, (input_shape[0],), generator=generator)
        yield inputs, targets


def reference_parameter(model: nn.Module) -> nn.Parameter:
    """Return the first floating-point parameter, whose device and dtype batches are moved to.

    Raises:
        InitializationError: the model has none.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return parameter
    raise InitializationError(f"the model ({type(model).__name__}) has no floating-point parameters")


def move(batch: Batch, like: Tensor) -> Batch:
    """Return a batch on the device of `like`; floating-point tensors also get its dtype, integers keep theirs."""
    inputs, targets = (t.to(device=like.device, dtype=like.dtype if t.is_floating_point() else t.dtype) for t in batch)
    return inputs, targets


NOT_FINITE = "is empty or has values that are not finite"
"""What is said of a batch of which `is_finite` is false."""


def is_finite(batch: Iterable[Tensor]) -> Tensor:
    """Return whether all tensors of a batch have entries and all of these are finite, 0-dim, on the device."""
    return torch.stack([torch.isfinite(t).all() & bool(t.numel()) for t in batch]).all()
