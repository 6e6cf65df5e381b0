"""Batches for tuners and probes, moved to a model's device and type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.inputs import Inputs

Batch = tuple[Tensor, Tensor]
"""Inputs, (samples, ...), and the same number of targets."""
LossFunction = Callable[[Tensor, Tensor], Tensor]
Weight = Callable[[Tensor], int | Tensor]
"""Returns the number of entries that the mean loss is over, 0-dim if it is a tensor, from the targets of a batch."""
RealBatchSource = Callable[[int, torch.Generator], Iterator[Batch]]
"""Called with the batch size and a CPU generator for the order; returns batches of (inputs, targets)."""


def reference_parameter(model: nn.Module) -> nn.Parameter:
    """Return the first floating-point parameter; batches are moved to its device and dtype.

    Args:
        model: any module.

    Raises:
        InitializationError: the model has none.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point():
            return parameter
    raise InitializationError(f"the model ({type(model).__name__}) has no floating-point parameters")


def zero_inputs(inputs: Inputs, model: nn.Module, samples: int = 1) -> Tensor:
    """Return samples of zeros, (samples, *shape), with the type and device of a model's parameters.

    For a model without floating-point parameters they are float32 on the CPU.
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    kind = like.dtype if inputs.vocabulary is None else torch.int64
    return torch.zeros(samples, *inputs.shape, dtype=kind, device=like.device)


def move(batch: Batch, like: Tensor) -> Batch:
    """Return a batch on a tensor's device; floating-point tensors also get its dtype, integers keep theirs.

    Args:
        batch: inputs and targets.
        like: the tensor.
    """
    inputs, targets = (to_device(t.to(like.dtype) if t.is_floating_point() else t, like.device) for t in batch)
    return inputs, targets


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; from the CPU to a GPU through pinned memory, so that the host does not wait."""
    if tensor.device.type == "cpu" and copies_from_pinned_memory(device):
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def copies_from_pinned_memory(device: torch.device) -> bool:
    """Return whether a device copies from pinned memory while the host goes on."""
    return device.type not in {"cpu", "mps", "meta"}


NOT_FINITE = "is empty or has values that are not finite"
"""Describes a batch for which `is_finite` is false."""


def is_finite(batch: Iterable[Tensor]) -> Tensor:
    """Return whether all tensors of a batch are non-empty and finite, 0-dim, on the device."""
    return torch.stack([torch.isfinite(t).all() & bool(t.numel()) for t in batch]).all()
