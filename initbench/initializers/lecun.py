"""LeCun initialization."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.initializers.distribution import Distribution, Shape, WeightLayer, sample
from initbench.registry import register_initializer

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@register_initializer("lecun", reference="LeCun, Bottou, Orr & Müller, Efficient BackProp, 1998, section 4.6")
def lecun(distribution: Shape = "normal") -> Distribution:
    """Entries of standard deviation 1 / √fan_in, equation (16) of the paper: linear layers keep the variance.

    A group of a convolution counts by itself. SELU networks are initialized so.

    Args:
        distribution: normal, this library's choice, or uniform of the same variance.
    """

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, str]:
        values, law = sample(layer, 1 / math.sqrt(layer.fan_in), distribution, generator)
        return values, f"lecun {law}"

    return Distribution(draw)
