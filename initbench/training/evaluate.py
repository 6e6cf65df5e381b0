"""Loss and error of a model on a split."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from initbench.training.precision import compute_logits

if TYPE_CHECKING:
    from torch import nn

    from initbench.data.dataset import Split
    from initbench.training.recipe import Precision

# Pixels of the images in a forward pass, such as 1,024 images of 32×32: as much work and memory for images of any size.
PIXELS_PER_BATCH = 2**20


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    split: Split,
    *,
    channels_last: bool = False,
    precision: Precision = "fp32",
) -> tuple[float, float]:
    """Return the mean cross-entropy (nats) and the fraction of wrong predictions, in evaluation mode.

    The mode of every module is restored.

    Args:
        model: from (N, C, H, W) to logits.
        split: at least one sample, on the model's device.
        channels_last: memory format of the inputs.
        precision: what the model runs in.
    """
    batch_size = max(1, PIXELS_PER_BATCH // math.prod(split.inputs.shape[2:]))
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    sums = []
    try:
        for inputs, targets in zip(
            torch.split(split.inputs, batch_size), torch.split(split.targets, batch_size), strict=True
        ):
            logits = compute_logits(model, inputs.contiguous(memory_format=memory_format), precision)
            loss = functional.cross_entropy(logits, targets, reduction="sum")
            sums.append(torch.stack([loss, (logits.argmax(1) != targets).sum().to(loss.dtype)]))
    finally:
        for module, training in modes:
            module.training = training
    # Batches are added in float64, and leave the device together.
    loss_sum, errors = torch.stack(sums).cpu().double().sum(0).tolist()
    return loss_sum / len(split), errors / len(split)
