"""Estimates with 95 % intervals: Student's t for means, Wilson's for rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from initbench.reporting.comparison import CONFIDENCE, t_interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Estimate(NamedTuple):
    """A number, its 95 % interval, and the number of independent values behind it.

    Attributes:
        value: the estimate, in the unit of the values; NaN where there is none.
        low: lower end of the interval; NaN where there is no interval.
        high: upper end.
        n: independent values behind it.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def clipped(self, low: float, high: float) -> Estimate:
        """Return the estimate with the interval's ends within bounds that the quantity cannot leave."""
        ends = np.clip([self.low, self.high], low, high)
        return self._replace(low=float(ends[0]), high=float(ends[1]))


def mean_estimate(values: ArrayLike) -> Estimate:
    """Return the mean of independent values with Student's interval ē ± t₀.₉₇₅,ₙ₋₁ · s / √n.

    There is no interval below 3 values: with 2 it is 12.7 standard errors to each side, and says nothing. There is
    neither mean nor interval where a value is infinite or NaN.

    Args:
        values: shape (n,), in any unit.
    """
    x = np.asarray(values, dtype=float)
    if not len(x) or not np.isfinite(x).all():
        return Estimate(math.nan, math.nan, math.nan, len(x))
    mean, half = float(x.mean()), t_interval(x)
    return Estimate(mean, mean - half, mean + half, len(x))


def wilson_estimate(count: int, n: int) -> Estimate:
    """Return a rate with Wilson's 95 % score interval.

    Its ends are the p that solve (count / n - p)² = z² p (1 - p) / n, with z = 1.96 (Wilson, J. Am. Stat. Assoc. 22
    (1927) 209-212). Unlike the usual interval it is no point where count is 0 or n.

    Args:
        count: how many of the n were such.
        n: number of trials; with 0 there is no rate.

    Raises:
        ValueError: count is not within 0 to n.
    """
    from statsmodels.stats.proportion import proportion_confint

    if not 0 <= count <= n:
        raise ValueError(f"count must be from 0 to {n}, got {count}")
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    low, high = proportion_confint(count, n, alpha=1 - CONFIDENCE, method="wilson")
    return Estimate(count / n, float(low), float(high), n)
