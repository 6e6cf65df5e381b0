"""The best learning rate between those that were tried, and how it changes with a network's size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from initbench.statistics.exponents import exponent_over_seeds
from initbench.statistics.intervals import Estimate

Edge = Literal["", "smallest", "largest"]


class Optimum(NamedTuple):
    """The best rate of one search.

    Attributes:
        rate: where a parabola through the outcomes over log(rate) has its minimum.
        edge: whether the best rate tried is the ``smallest`` or the ``largest``, so that the true one may be beyond it;
            otherwise empty.
    """

    rate: float
    edge: Edge


def optimum(rates: ArrayLike, outcomes: ArrayLike) -> Optimum | None:
    """Return the best rate: the minimum of the parabola through the best rate tried and both its neighbours.

    Three points, because outcomes over log(rate) are a parabola only near their minimum: they rise steeply where
    training becomes unstable. The minimum lies between the neighbours. If the best rate has only one neighbour, or one
    that diverged, it is the best rate itself.

    Args:
        rates: (n,), each once, above 0.
        outcomes: (n,), lower is better, +∞ if diverged.

    Returns:
        None if every rate diverged.
    """
    x, y = np.asarray(rates, dtype=float), np.asarray(outcomes, dtype=float)
    order = np.argsort(x, kind="stable")
    x, y = np.log2(x[order]), y[order]
    if not np.isfinite(y).any():
        return None
    best = int(np.argmin(y))
    if best in {0, len(x) - 1}:
        return Optimum(float(2 ** x[best]), "largest" if best else "smallest")
    near = slice(best - 1, best + 2)
    if not np.isfinite(y[near]).all():
        return Optimum(float(2 ** x[best]), "")
    square, linear, _ = np.polyfit(x[near] - x[best], y[near] - y[best], 2)
    shift = -linear / (2 * square) if square > 0 else 0.0  # all three may be equal
    return Optimum(float(2 ** (x[best] + shift)), "")


def transfer_exponent(optima: Mapping[float, Sequence[Optimum]]) -> Estimate:
    """Return the exponent b of the best rate ∝ size^b, with Student's interval over the seeds.

    Each seed has the least-squares slope of log(rate) over log(size).

    Args:
        optima: size → the optimum of each seed, in the same order; at least two sizes.

    Returns:
        NaN if sizes have different numbers of seeds.
    """
    if len(optima) < 2 or len({len(seeds) for seeds in optima.values()}) > 1:
        return Estimate(math.nan, math.nan, math.nan, 0)
    return exponent_over_seeds(list(optima), [[one.rate for one in seeds] for seeds in optima.values()])
