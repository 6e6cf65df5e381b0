"""Gaussian initialization with one standard deviation for all layers."""

from __future__ import annotations

from initbench.arguments import check_positive
from initbench.initializers.distribution import Distribution, independent
from initbench.registry import register_initializer


@register_initializer("gaussian", reference="Krizhevsky et al., NeurIPS 2012, section 5")
def gaussian(std: float = 0.01, embedding_std: float = 0.02) -> Distribution:
    """Entries of N(0, std²) whatever the layer's size: the deliberately bad start of the MetaInit paper (Figure 3).

    Args:
        std: standard deviation; 0.01 as in AlexNet.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: std or embedding_std is not a finite number above 0.
    """
    check_positive(std=std)
    return independent(lambda _: std, "normal", embedding_std)
