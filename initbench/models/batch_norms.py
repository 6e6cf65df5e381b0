"""The BatchNorm layers of a model, and whose statistics they use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.modules.batchnorm import _BatchNorm

if TYPE_CHECKING:
    from torch import nn


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """Return the BatchNorm layers."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def uses_batch_statistics(layer: _BatchNorm) -> bool:
    """Return whether a BatchNorm layer uses the statistics of the batch, as one without running ones always does."""
    return layer.training or layer.running_mean is None
