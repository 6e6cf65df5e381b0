"""A batch as micro-batches, one at a time in memory, whose losses add up to the batch's loss.

A loss that is a mean over independent samples is the sum over micro-batches of share × mean loss, and so are its
derivatives: L = Σ wᵢ Lᵢ. The share wᵢ is the micro-batch's fraction of the targets that the mean is over. If a sample's
output depends on other samples of its batch, or on random numbers, there is no such sum, and the batch is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.differentiation.loss import differentiable_loss
from initbench.errors import ArgumentError
from initbench.models import random_state
from initbench.models.batches import Batch, LossFunction, Weight
from initbench.models.calls import mean_loss, running_on, tensor_of
from initbench.models.state import batch_norms, forgetful, uses_batch_statistics

LossOf = Callable[[Callable[[Tensor], Any]], Tensor]
"""Returns the loss of a batch, or a micro-batch's share of it, for a model's forward pass."""

_ARGUMENT = "micro_batch_size"
_INSTEAD = "take the batch whole, or the model in eval mode"
_IGNORED = -100
"""The target that PyTorch's losses leave out of their mean by default (``ignore_index``)."""


@dataclass(frozen=True)
class MicroBatch:
    inputs: Tensor
    targets: Tensor
    share: float

    @property
    def batch(self) -> Batch:
        return self.inputs, self.targets


def losses_of(
    model: nn.Module,
    batch: Batch,
    loss_fn: LossFunction,
    micro_batch_size: int | None = None,
    weight: Weight | None = None,
    *,
    batch_norm: bool = False,
    third: bool = False,
) -> list[LossOf]:
    """Return functions that sum to the mean loss of a batch: one for the whole batch, or one for each micro-batch.

    See `differentiable_loss` for `batch_norm` and `third`, and `micro_batches` for refusals.
    """
    loss_of = partial(differentiable_loss, loss_fn=loss_fn, batch_norm=batch_norm, third=third)
    whole = MicroBatch(*batch, share=1.0)
    parts = [whole] if micro_batch_size is None else micro_batches(model, batch, loss_fn, micro_batch_size, weight)
    if len(parts) == 1:
        return [partial(loss_of, inputs=parts[0].inputs, targets=parts[0].targets)]
    return [partial(_share_of_loss, part=part, loss_of=loss_of) for part in parts]


def _share_of_loss(forward: Callable[[Tensor], Any], *, part: MicroBatch, loss_of: Callable[..., Tensor]) -> Tensor:
    with torch.enable_grad():
        return part.share * loss_of(forward, inputs=part.inputs, targets=part.targets)


def micro_batches(
    model: nn.Module, batch: Batch, loss_fn: LossFunction, size: int, weight: Weight | None = None
) -> list[MicroBatch]:
    """Return the micro-batches of a batch, in order; the last may have fewer samples, and a small batch is not split.

    A share is a micro-batch's fraction of the batch's weight. Without `weight`, or if a target is -100, which PyTorch's
    losses ignore, it is its fraction of the targets: of the entries that are not -100 if targets are integers,
    otherwise of the samples. A micro-batch without targets is left out. One forward pass of the first and last
    micro-batches checks that the loss is the sum and that samples are independent; it is refused if a norm takes
    statistics over the batch, as BatchNorm in training mode does, for dropout in training mode, and if `loss_fn` is not
    this mean.
    """
    check_counts(micro_batch_size=size)
    inputs, targets = batch
    if len(inputs) <= size:
        return [MicroBatch(inputs, targets, 1.0)]
    if targets.dim() == 0 or len(targets) != len(inputs):
        raise ArgumentError(
            f"splits {len(inputs)} samples and needs targets for each, got shape {tuple(targets.shape)}",
            _ARGUMENT,
        )
    layer = next(filter(uses_batch_statistics, batch_norms(model)), None)
    if layer is not None:
        name = next(name for name, module in model.named_modules() if module is layer)
        raise ArgumentError(
            f"cannot be met: BatchNorm ({name}) takes the statistics of the batch, which micro-batches do not have; "
            f"{_INSTEAD}",
            _ARGUMENT,
        )
    pieces = list(zip(torch.split(inputs, size), torch.split(targets, size), strict=True))
    counted = torch.stack([_count(part) for _, part in pieces])
    if weight is not None:
        # A number of samples stays a number: it is not copied to the device.
        weights = torch.stack([torch.zeros_like(counted[0]) + weight(part) for _, part in pieces])
        counted = torch.where(targets.eq(_IGNORED).any(), counted, weights)
    counts = counted.tolist()
    if sum(counts) == 0:  # the loss is NaN, as for the whole batch
        counts = [len(part) for _, part in pieces]
    total = sum(counts)
    parts = [MicroBatch(x, y, count / total) for (x, y), count in zip(pieces, counts, strict=True) if count]
    if len(parts) > 1:
        _check_sum(model, parts[0], parts[-1], loss_fn)
    return parts


def _count(targets: Tensor) -> Tensor:
    """Return the number of targets that the mean loss is over, 0-dim."""
    if targets.is_floating_point() or targets.is_complex():
        return torch.tensor(len(targets), device=targets.device)
    return (targets != _IGNORED).sum()


@torch.no_grad()
def _check_sum(model: nn.Module, first: MicroBatch, last: MicroBatch, loss_fn: LossFunction) -> None:
    """Raise an ArgumentError if the loss of two micro-batches is not the sum of their shares."""
    before = _random_states(first.inputs)
    with forgetful(model):
        outputs = [_outputs(model, part.inputs) for part in (first, last)]
        mixed = _outputs(model, torch.cat([first.inputs[-1:], last.inputs[:1]]))
    if not all(map(torch.equal, before, _random_states(first.inputs))):
        raise ArgumentError(
            "cannot be met: the model draws random numbers, as dropout in training mode does, which differ for "
            f"micro-batches; {_INSTEAD}",
            _ARGUMENT,
        )
    if not _near(mixed, torch.cat([outputs[0][-1:], outputs[1][:1]]), 1 / 4):
        raise ArgumentError(
            "cannot be met: the output for a sample depends on the other samples of its batch, as with a norm on batch "
            f"statistics; {_INSTEAD}",
            _ARGUMENT,
        )
    if not _near(*_derivatives(outputs, (first, last), loss_fn), 2 / 3):
        raise ArgumentError(
            "cannot be met: the loss is not the mean over samples, over the targets that are not -100, or over what "
            "the task counts; take the batch whole",
            _ARGUMENT,
        )


def _outputs(model: nn.Module, inputs: Tensor) -> Tensor:
    with running_on(inputs):
        outputs = tensor_of(model(inputs))
    if not torch.is_tensor(outputs) or outputs.dim() == 0 or len(outputs) != len(inputs):
        got = f"shape {tuple(outputs.shape)}" if torch.is_tensor(outputs) else type(outputs).__name__
        raise ArgumentError(f"needs a model with one output for each of {len(inputs)} samples, got {got}", _ARGUMENT)
    return outputs


@torch.enable_grad()
def _derivatives(
    outputs: list[Tensor], parts: tuple[MicroBatch, MicroBatch], loss_fn: LossFunction
) -> tuple[Tensor, Tensor]:
    """Return the derivatives of two micro-batches' loss for their outputs: taken jointly, and as the sum of shares."""
    leaves = [output.detach().requires_grad_() for output in outputs]
    both = mean_loss(lambda _: torch.cat(leaves), _joined(*parts), loss_fn)
    whole = sum(part.share for part in parts)
    shares = torch.stack(
        [
            part.share / whole * mean_loss(lambda _, leaf=leaf: leaf, part.batch, loss_fn)  # type: ignore[misc]
            for part, leaf in zip(parts, leaves, strict=True)
        ]
    )
    derivatives = []
    for loss in (both, shares.sum()):
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if loss.requires_grad else [None] * 2
        zeros = map(torch.zeros_like, leaves)
        derivatives.append(torch.cat([zero if g is None else g for g, zero in zip(gradients, zeros, strict=True)]))
    return derivatives[0], derivatives[1]


def _joined(first: MicroBatch, second: MicroBatch) -> Batch:
    return torch.cat([first.inputs, second.inputs]), torch.cat([first.targets, second.targets])


def _near(first: Tensor, second: Tensor, power: float) -> bool:
    """Return whether two tensors differ only by rounding, even if they contain non-finite values.

    Rounding is a difference of at most the machine epsilon to the `power` times the largest entry. A deep network
    magnifies rounding, and batch statistics make a large difference; a loss function does not magnify it.
    """
    bound = torch.finfo(first.dtype).eps ** power * second.abs().max()
    return not bool(((first - second).abs() > bound).any())


def _random_states(like: Tensor) -> list[Tensor]:
    """Return the states of the global generators that a model may use on a tensor's device."""
    states = torch.get_rng_state(), random_state.device_state(like.device)
    return [state for state in states if state is not None]
