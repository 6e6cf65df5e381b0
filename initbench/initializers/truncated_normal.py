"""Normal weights without tails."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from initbench.arguments import check_positive
from initbench.errors import ArgumentError
from initbench.initializers.distribution import Distribution, WeightLayer
from initbench.initializers.record import Law
from initbench.registry import register_initializer

# The law is nearly uniform here; for smaller bounds the difference from 1 in the formula of σ loses too many digits.
_LEAST_BOUND = 1e-3


@register_initializer("truncated_normal", reference="Burkardt, The truncated normal distribution, 2014, section 3")
def truncated_normal(std: float = 0.02, bound: float = 2.0, embedding_std: float = 0.02) -> Distribution:
    """Normal entries cut off at ±`bound` deviations of the normal law; `std` is the deviation *after* cutting.

    A normal law of deviation σ cut off at 2σ has a standard deviation of only 0.88 σ, so σ is `std` divided by that
    factor, √(1 − 2bφ(b) / (2Φ(b) − 1)). `torch.nn.init.trunc_normal_` makes neither correction: it cuts at ±2 whatever
    the deviation, so that weights of 0.02 keep practically all of their tails. Vision transformers are initialized with
    0.02.

    Args:
        std: standard deviation of the entries, after cutting.
        bound: the cut, in deviations of the normal law before cutting.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: std or embedding_std is not a finite number above 0, or bound is not a finite number of at least
            0.001.
    """
    check_positive(std=std)
    check_bound("bound", bound)

    def draw(layer: WeightLayer, generator: torch.Generator) -> tuple[Tensor, Law]:
        return cut_normal(layer.weight, std, bound, generator)

    return Distribution(draw, embedding_std)


def check_bound(name: str, bound: float) -> None:
    """Raise an ArgumentError if a normal law cannot be cut off at ±`bound` deviations."""
    check_positive(**{name: bound})
    if bound < _LEAST_BOUND:
        raise ArgumentError(f"must be at least {_LEAST_BOUND}, got {bound}", name)


def cut_normal(weight: Tensor, std: float, bound: float, generator: torch.Generator) -> tuple[Tensor, Law]:
    """Return normal entries for a weight, cut off at ±`bound` deviations; `std` is their deviation after cutting."""
    inside = math.erf(bound / math.sqrt(2))
    sigma = std / kept_deviation(bound)
    # In float64: float32 has no uniform numbers close enough to 1 for the tails of a wide bound.
    uniform = torch.empty(weight.shape, dtype=torch.float64, device="cpu")
    uniform.uniform_(-1, 1, generator=generator)
    values = math.sqrt(2) * sigma * torch.erfinv(inside * uniform)
    # erfinv is infinite at ±1, and `inside` rounds to 1 for bounds above 8.
    values = values.clamp(-bound * sigma, bound * sigma)
    dtype = torch.float64 if weight.dtype == torch.float64 else torch.float32
    return values.to(dtype), {"law": "truncated normal", "std": std, "bound": bound * sigma}


def kept_deviation(bound: float) -> float:
    """Return the standard deviation of N(0, 1) cut off at ±`bound`, √(1 − 2bφ(b) / (2Φ(b) − 1))."""
    density = math.exp(-bound * bound / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * bound * density / math.erf(bound / math.sqrt(2)))
