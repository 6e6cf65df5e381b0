"""The loss before any training step."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from initbench.arguments import check_counts
from initbench.models.batches import move, reference_parameter
from initbench.models.calls import mean_loss
from initbench.models.state import forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Scalar
from initbench.registry import register_probe
from initbench.registry.traits import DataKind


@register_probe("initial_loss", smoke={"batch_size": 2, "batches": 2})
def initial_loss(
    data: DataKind = "real", batch_size: int = 32, batches: int = 8, mode: Literal["eval", "train"] = "eval"
) -> Measure:
    """Mean loss at initialization, with the task's reference values, such as the loss of a uniform prediction.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with batch statistics, dropout on).

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, batches=batches)

    def measure(model: nn.Module, context: ProbeContext) -> Scalar:
        like = reference_parameter(model)
        losses = []
        with preserved(model), forked_rng(model, context.seed, "probe"), torch.no_grad():
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                inputs, targets = move(batch, like)
                losses.append(mean_loss(model, (inputs, targets), context.loss))
        per_batch = torch.stack(losses).double()
        conditions = {
            "data": data,
            "batch_size": batch_size,
            "batches": batches,
            "mode": mode,
            "per_batch": per_batch.tolist(),
        } | context.task.reference_losses(context.outputs)
        return Scalar(float(per_batch.mean()), conditions)

    return measure
