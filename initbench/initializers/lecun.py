"""LeCun initialization."""

from __future__ import annotations

import math

from initbench.initializers.distribution import Distribution, Family, independent
from initbench.registry import register_initializer


@register_initializer("lecun", reference="LeCun, Bottou, Orr & Müller, Efficient BackProp, 1998, section 4.6")
def lecun(distribution: Family = "normal", embedding_std: float = 0.02) -> Distribution:
    """Entries of standard deviation 1 / √fan_in, equation (16) of the paper: linear layers keep the variance.

    Each group of a convolution counts separately. This is the usual initialization of SELU networks.

    Args:
        distribution: normal, this library's choice, or uniform with the same variance.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: embedding_std is not a finite number above 0.
    """
    return independent(lambda layer: 1 / math.sqrt(layer.fan_in), distribution, embedding_std)
