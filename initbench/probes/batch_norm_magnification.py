"""The factor by which each BatchNorm magnifies the variance of the gradient in the backward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.differentiation.gradients import backward
from initbench.differentiation.loss import Replaced
from initbench.models.batches import move, reference_parameter
from initbench.models.calls import mean_loss
from initbench.models.state import batch_norms, forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer
from initbench.registry import register_probe
from initbench.registry.traits import DataKind

REFERENCE = "Zhu et al., GradInit, NeurIPS 2021, appendix C"


@register_probe("batch_norm_magnification", smoke={"batch_size": 2, "batches": 1}, reference=REFERENCE)
def batch_norm_magnification(data: DataKind = "real", batch_size: int = 128, batches: int = 1) -> Measure:
    """Variance of the loss's gradient at each BatchNorm's input over its variance at the output, in training mode.

    A second value, ``input_variance``, is the variance of the BatchNorm's input. Both are population variances over the
    samples and positions of a batch; gradient variances are summed over channels, input variances averaged. The
    gradient at the input is the part that passes through this BatchNorm, even if a skip reads the same tensor.

    With weight γ the gradient is multiplied by γ / √(σ² + ε) and loses its components along the constants and along the
    output, which are 2 of n directions (GradInit, equation 5). So the ratio is at most γ² / (σ² + ε), and close to it
    for independent entries: above 1 if the input's variance is below 1 (equation 7). The cost is one gradient per
    batch. A model without BatchNorm has no values.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches, over which variances are added up.

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, batches=batches)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        variances = _Variances(model)
        if variances.names:
            with preserved(model), forked_rng(model, context.seed, "probe"), variances.taken(), torch.enable_grad():
                model.train()
                for batch in context.batches(data, batch_size, batches):
                    inputs, targets = move(batch, like)
                    backward(mean_loss(model, (inputs, targets), context.loss))
        conditions = {"data": data, "batch_size": batch_size, "batches": batches, "mode": "train"}
        sums = variances.sums
        return {
            "per_layer": PerLayer({name: layer.ratio for name, layer in sums.items()}, conditions=conditions),
            "input_variance": PerLayer({name: layer.mean for name, layer in sums.items()}, conditions=conditions),
        }

    return measure


@dataclass
class _Sums:
    """Sums over the runs of one BatchNorm, 0-dim tensors in float64.

    `behind` is the variance of the gradient at its input and `before` at its output, which the backward pass reaches
    first; `variance` is the variance of its input.
    """

    behind: Tensor | float = 0.0
    before: Tensor | float = 0.0
    variance: Tensor | float = 0.0
    runs: int = 0

    @property
    def ratio(self) -> float:
        """The factor by which the gradient's variance is magnified; NaN if it has none, as after a branch times 0."""
        before = float(self.before)
        return float(self.behind) / before if before else math.nan

    @property
    def mean(self) -> float:
        return float(self.variance) / self.runs


class _Variances:
    """Variances at every BatchNorm during a forward and backward pass."""

    def __init__(self, model: nn.Module) -> None:
        self._layers = batch_norms(model)
        ids = set(map(id, self._layers))
        self.names = {id(module): name for name, module in model.named_modules() if id(module) in ids}
        self.sums: dict[str, _Sums] = {}
        self._running: list[str] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        hooks = [layer.register_forward_pre_hook(self._enter) for layer in self._layers]
        hooks += [layer.register_forward_hook(self._leave, always_call=True) for layer in self._layers]
        try:
            # The function and not the module, because some subclasses end with an activation (timm's BatchNormAct2d).
            with Replaced({F.batch_norm: self._batch_norm}):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, layer: nn.Module, _inputs: Any) -> None:
        self._running.append(self.names[id(layer)])

    def _leave(self, *_: Any) -> None:
        self._running.pop()

    def _batch_norm(self, inputs: Tensor, *arguments: Any, **options: Any) -> Tensor:
        if not self._running:
            return F.batch_norm(inputs, *arguments, **options)
        inputs = inputs.view_as(inputs)  # so that its gradient is this BatchNorm's alone
        if not inputs.requires_grad:  # such as the data in a first layer
            inputs.requires_grad_()
        outputs = F.batch_norm(inputs, *arguments, **options)
        sums = self.sums.setdefault(self._running[-1], _Sums())
        sums.variance = sums.variance + _variances(inputs.detach()).mean()
        sums.runs += 1

        def behind(gradient: Tensor) -> None:
            sums.behind = sums.behind + _variances(gradient).sum()

        def before(gradient: Tensor) -> None:
            sums.before = sums.before + _variances(gradient).sum()

        inputs.register_hook(behind)  # type: ignore[no-untyped-call]
        outputs.register_hook(before)  # type: ignore[no-untyped-call]
        return outputs


def _variances(tensor: Tensor) -> Tensor:
    """Return the variance of each channel, (C,), in float64."""
    return tensor.double().var([0, *range(2, tensor.dim())], correction=0)
