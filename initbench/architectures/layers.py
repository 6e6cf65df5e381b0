"""Kinds of layers of any model: those with weights, normalizations, the classifier."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

WEIGHT_LAYERS = (nn.Linear, _ConvNd, nn.MultiheadAttention)
NORM_LAYERS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""BatchNorm and InstanceNorm are a `_NormBase`."""


def classifier_name(model: nn.Module) -> str | None:
    """Return the name of a model's last linear layer, of its last 1×1 convolution where it has none."""
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    pointwise = [n for n, m in model.named_modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (1, 1)]
    return next(reversed(linear or pointwise), None)
