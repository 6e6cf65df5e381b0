"""Kinds of layers: those with weights, and normalizations."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

WEIGHT_LAYERS = (nn.Linear, _ConvNd, nn.MultiheadAttention)
NORM_LAYERS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""BatchNorm and InstanceNorm are a `_NormBase`."""
