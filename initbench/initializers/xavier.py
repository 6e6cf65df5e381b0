"""Xavier (Glorot) initialization."""

from __future__ import annotations

import math

from initbench.arguments import check_positive
from initbench.initializers.distribution import Distribution, Family, independent
from initbench.registry import register_initializer


@register_initializer("xavier", reference="Glorot & Bengio, AISTATS 2010, section 4.2.1")
def xavier(distribution: Family = "uniform", gain: float = 1.0, embedding_std: float = 0.02) -> Distribution:
    """Entries of standard deviation gain · √(2 / (fan_in + fan_out)).

    The compromise between forward and backward variance in equation (12) of the paper; equation (16) is its uniform
    form, with bound √(6 / (fan_in + fan_out)). Each group of a convolution counts separately.

    Args:
        distribution: uniform, or normal with the same variance.
        gain: 1 for linear layers and for tanh near 0.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: gain or embedding_std is not a finite number above 0.
    """
    check_positive(gain=gain)
    return independent(lambda layer: gain * math.sqrt(2 / (layer.fan_in + layer.fan_out)), distribution, embedding_std)
