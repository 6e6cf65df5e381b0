"""The difference of the gradient between mini-batches."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from initbench.arguments import check_counts
from initbench.differentiation.gradients import check_parameters, loss_gradients
from initbench.differentiation.loss import differentiable_loss
from initbench.errors import ArgumentError
from initbench.models.batches import move, reference_parameter
from initbench.models.state import forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer, Scalar
from initbench.registry import register_probe
from initbench.registry.traits import DataKind

REFERENCE = "Zhu et al., GradInit, NeurIPS 2021, Figures 4 to 10"


@register_probe("gradient_deviation", smoke={"batch_size": 2, "batches": 2}, reference=REFERENCE)
def gradient_deviation(
    data: DataKind = "real", batch_size: int = 128, batches: int = 16, mode: Literal["eval", "train"] = "train"
) -> Measure:
    """Standard deviation of the gradient over mini-batches, averaged over the entries of all trainable parameters.

    A second value, ``per_layer``, is the average over the entries of each parameter: the averaged per-dimension
    deviation σ(gᵢ) of GradInit's Figures 4 to 10, over mini-batches of 128 with BatchNorm in training mode (caption of
    Figure 4). The paper does not give the number of mini-batches; here it is 16, and the squared deviation is the
    unbiased estimate, which divides by one less than their number. The cost is one gradient per batch, 16 of 128
    samples by default, and memory for two vectors of parameters in float64.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches, at least 2.
        mode: ``eval`` or ``train`` (BatchNorm with batch statistics, dropout on).

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size)
    if batches < 2:
        raise ArgumentError(f"must be at least 2 for a deviation between batches, got {batches}", "batches")

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        parameters = list(named.values())
        check_parameters(parameters)
        # Welford's sums: a difference of two large sums would lose the deviations. In float64, because squares of
        # large float32 gradients overflow.
        means = [torch.zeros_like(p, dtype=torch.float64, requires_grad=False) for p in parameters]
        squares = [torch.zeros_like(mean) for mean in means]
        with preserved(model), forked_rng(model, context.seed, "probe"):
            model.train(mode == "train")
            for count, batch in enumerate(context.batches(data, batch_size, batches), 1):
                inputs, targets = move(batch, like)
                loss = differentiable_loss(model, inputs, targets, context.loss)
                gradients = loss_gradients(loss, parameters, create_graph=False)
                for gradient, mean, square in zip(gradients, means, squares, strict=True):
                    off = -mean if gradient is None else gradient.double() - mean
                    mean.add_(off / count)
                    square.add_(off.square() * ((count - 1) / count))
        deviations = [(square / (batches - 1)).sqrt_() for square in squares]
        entries = sum(deviation.numel() for deviation in deviations)
        conditions = {"data": data, "batch_size": batch_size, "batches": batches, "mode": mode}
        per_layer = {name: float(deviation.mean()) for name, deviation in zip(named, deviations, strict=True)}
        return {
            "": Scalar(sum(float(deviation.sum()) for deviation in deviations) / entries, conditions),
            "per_layer": PerLayer(per_layer, conditions=conditions),
        }

    return measure
