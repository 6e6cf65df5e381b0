"""The biases that convolutions lack where a normalization followed."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd


def add_biases(model: nn.Module) -> None:
    """Give every convolution a bias of zeros that has none."""
    for module in model.modules():
        if isinstance(module, _ConvNd) and module.bias is None:
            weight = module.get_parameter("weight")
            module.bias = nn.Parameter(torch.zeros(module.out_channels, device=weight.device, dtype=weight.dtype))
