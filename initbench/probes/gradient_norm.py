"""The norm of the loss's gradient at initialization: vanished, exploded or neither."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from initbench.arguments import check_counts
from initbench.differentiation.gradients import check_parameters, loss_gradients
from initbench.differentiation.loss import differentiable_loss
from initbench.models.batches import move, reference_parameter
from initbench.models.state import forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext, median
from initbench.probes.measurement import Measurement, PerLayer, Scalar
from initbench.registry import register_probe
from initbench.registry.traits import DataKind


@register_probe("gradient_norm", smoke={"batch_size": 2, "batches": 2})
def gradient_norm(
    data: DataKind = "random", batch_size: int = 32, batches: int = 8, mode: Literal["eval", "train"] = "eval"
) -> Measure:
    """Global L2 norm of the gradient of the mean loss over all trainable parameters, median over batches.

    A second value, ``per_layer``, is the median norm for each parameter.

    Args:
        data: ``random`` inputs and targets, or ``real`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with batch statistics, dropout on).

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, batches=batches)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        parameters = list(named.values())
        check_parameters(parameters)
        rows = []
        with preserved(model), forked_rng(model, context.seed, "probe"):
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                inputs, targets = move(batch, like)
                loss = differentiable_loss(model, inputs, targets, context.loss)
                gradients = loss_gradients(loss, parameters, create_graph=False)
                pairs = zip(gradients, parameters, strict=True)
                # In float64, because squares of large float32 gradients overflow.
                norms = [
                    torch.linalg.vector_norm(torch.zeros_like(p) if g is None else g, dtype=torch.float64)
                    for g, p in pairs
                ]
                rows.append(torch.stack(norms).detach())
        layers = torch.stack(rows)
        per_batch = torch.linalg.vector_norm(layers, dim=1).tolist()
        conditions = {"data": data, "batch_size": batch_size, "batches": batches, "mode": mode}
        per_layer = {name: median(column) for name, column in zip(named, layers.T.tolist(), strict=True)}
        return {
            "": Scalar(median(per_batch), conditions | {"per_batch": per_batch}),
            "per_layer": PerLayer(per_layer, conditions=conditions),
        }

    return measure
