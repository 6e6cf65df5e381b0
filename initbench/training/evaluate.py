"""Evaluation of a model on a split."""

from __future__ import annotations

import math

import torch
from torch import nn

from initbench.data.dataset import Samples
from initbench.inputs import Inputs
from initbench.tasks import Task
from initbench.training.precision import compute_outputs
from initbench.training.recipe import Precision

# Pixels of the images in a forward pass, such as 1,024 images of 32×32, or tokens: as much work and memory for samples
# of any size.
POSITIONS_PER_BATCH = 2**20
# Numbers that a forward pass puts out: each token may have those of a whole vocabulary.
OUTPUTS_PER_BATCH = 2**26


def evaluation_batch_size(task: Task, inputs: Inputs, outputs: int) -> int:
    """Return the samples of a forward pass, at least 1."""
    numbers = math.prod(task.output_shape(inputs, outputs))
    return max(1, min(POSITIONS_PER_BATCH // inputs.positions, OUTPUTS_PER_BATCH // numbers))


@torch.inference_mode()
def split_totals(
    model: nn.Module,
    split: Samples,
    task: Task,
    batch_size: int,
    *,
    channels_last: bool = False,
    precision: Precision = "fp32",
) -> dict[str, float]:
    """Return a task's totals over a split, in evaluation mode: exact for counts.

    The mode of every module is restored. Of floating-point totals the batch size changes the last digits.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    names: list[str] = []
    sums = []
    try:
        parts = (slice(start, start + batch_size) for start in range(0, len(split), batch_size))
        for inputs, targets in split.batches(parts):
            outputs = compute_outputs(model, inputs.contiguous(memory_format=memory_format), precision)
            totals = task.totals(outputs, targets)
            names = list(totals)
            sums.append(torch.stack([total.double() for total in totals.values()]))
    finally:
        for module, training in modes:
            module.training = training
    # The batches' totals leave the device together, and are added in float64.
    return dict(zip(names, torch.stack(sums).cpu().sum(0).tolist(), strict=True))
