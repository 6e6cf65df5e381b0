"""The precision that a model runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor, nn

    from initbench.training.recipe import Precision


def compute_logits(model: nn.Module, inputs: Tensor, precision: Precision) -> Tensor:
    """Return the model's logits, (N, classes).

    With ``bf16`` the model runs under `torch.autocast`, which takes matrix products and convolutions in bfloat16. The
    logits come back in float32, so that losses are computed and added in float32 on every device.

    Args:
        model: from (N, C, H, W) to logits.
        inputs: (N, C, H, W).
        precision: ``fp32`` leaves the types of the model and the inputs as they are.
    """
    if precision == "fp32":
        logits: Tensor = model(inputs)
        return logits
    with torch.autocast(inputs.device.type, torch.bfloat16):
        logits = model(inputs)
    return logits.float()
