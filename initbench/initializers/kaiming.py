"""Kaiming (He) initialization."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from initbench.checks import check_positive
from initbench.initializers.distribution import Distribution, Shape, WeightLayer, sample
from initbench.registry import register_initializer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from initbench.initializers.events import Law


@register_initializer("kaiming", reference="He et al., Delving Deep into Rectifiers, ICCV 2015, section 2.2")
def kaiming(
    mode: Literal["fan_in", "fan_out"] = "fan_in",
    distribution: Shape = "normal",
    gain: float = math.sqrt(2),
    embedding_std: float = 0.02,
) -> Distribution:
    """Entries of standard deviation gain / √fan, which keeps the variance through ReLU layers.

    Equations (10) (fan_in, activations) and (14) (fan_out, gradients) of the paper; the defaults are those of (10),
    which assumes that ReLUs follow. Fixup's and GradInit's authors have fan_out in their code. A group of a convolution
    counts by itself.

    Args:
        mode: whether to keep the variance of activations or of gradients.
        distribution: normal, or uniform of the same variance.
        gain: √2 for ReLU; 1 for linear layers.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: gain or embedding_std is not a finite number above 0.
    """
    check_positive("gain", gain)

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        fan = layer.fan_in if mode == "fan_in" else layer.fan_out
        return sample(layer, gain / math.sqrt(fan), distribution, generator)

    return Distribution(draw, embedding_std)
