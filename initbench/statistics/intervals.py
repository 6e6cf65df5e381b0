"""Estimates with 95 % intervals: Student's t for means, Wilson's for rates; simultaneous for several if requested."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from initbench.metric import Metric

CONFIDENCE = 0.95
MINIMUM_SEEDS = 3


class Estimate(NamedTuple):
    """A number, its 95 % interval, and the number of independent values it is based on.

    Attributes:
        value: the estimate, in the unit of the values; NaN if there is none.
        low: lower end of the interval; NaN without an interval.
        high: upper end.
        n: number of independent values.
    """

    value: float
    low: float
    high: float
    n: int

    @property
    def has_interval(self) -> bool:
        return not math.isnan(self.low)

    @property
    def half_width(self) -> float:
        """Half the width of the interval, NaN if there is none; meaningless for a clipped interval."""
        return (self.high - self.low) / 2

    def columns(self, name: str) -> dict[str, float]:
        """Return the columns of a table that hold it: ``<name>``, ``<name>_low`` and ``<name>_high``."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}

    def side(self, no_effect: float = 0.0) -> int:
        """Return the side of the value of no effect on which the interval lies: 1 above, -1 below, 0 if it contains it.

        It is also 0 without an interval, because then nothing can be decided.
        """
        if not self.has_interval or self.low <= no_effect <= self.high:
            return 0
        return 1 if self.low > no_effect else -1

    def in_direction(self, metric: Metric) -> Estimate:
        """Convert a difference of oriented values (`Metric.oriented`) to the metric's own values, or the reverse."""
        if metric.better == "lower":
            return self
        return self._replace(value=0.0 - self.value, low=0.0 - self.high, high=0.0 - self.low)  # never -0

    def clipped(self, low: float, high: float) -> Estimate:
        """Return the estimate with the interval's ends clipped to the bounds of the quantity."""
        ends = np.clip([self.low, self.high], low, high)
        return self._replace(low=float(ends[0]), high=float(ends[1]))


def mean_estimate(values: ArrayLike, comparisons: int = 1) -> Estimate:
    """Return the mean of independent values with Student's interval ē ± t₁₋α/₂ₘ,ₙ₋₁ · s / √n, α = 5 %.

    There is no interval below 3 values: with 2 it is 12.7 standard errors to each side, which is useless. There is none
    if all values are equal: it would be a point, as if a few equal values made the mean certain. There is neither mean
    nor interval if a value is infinite or NaN.

    Args:
        values: shape (n,), in any unit.
        comparisons: m, the number of such intervals that should hold simultaneously with 95 % (Bonferroni).
    """
    x = np.asarray(values, dtype=float)
    if not len(x) or not np.isfinite(x).all():
        return Estimate(math.nan, math.nan, math.nan, len(x))
    mean = float(x.mean())
    judged = len(x) >= MINIMUM_SEEDS and not all_equal(x)
    half = t_multiplier(len(x), comparisons) * float(np.std(x, ddof=1)) if judged else math.nan
    return Estimate(mean, mean - half, mean + half, len(x))


def share_estimate(values: ArrayLike, comparisons: int = 1) -> Estimate:
    """Return the mean of values from 0 to 1, such as probabilities, with an interval that is not a point at 0 and 1.

    If a few values are all 1, or all 0, they have no spread, and Student's interval would be a point. One more value is
    therefore added, half of it 0 and half 1, as Jeffreys' prior does for a rate (Brown, Cai and DasGupta, Stat. Sci. 16
    (2001) 101-133, section 3.1.3): with m̃ = (Σ x + ½) / (n + 1) and ṽ = (Σ x² + ½) / (n + 1) - m̃² the interval is m̃
    ± t √(ṽ / n), t as for `mean_estimate`, within 0 to 1. Its properties are in docs/statistics.md.
    """
    x = np.asarray(values, dtype=float)
    plain = mean_estimate(x, comparisons)
    n = len(x)
    if n < MINIMUM_SEEDS or math.isnan(plain.value):
        return plain
    centre = (float(x.sum()) + 0.5) / (n + 1)
    variance = (float(np.sum(x**2)) + 0.5) / (n + 1) - centre**2
    half = t_multiplier(n, comparisons) * math.sqrt(variance)
    return Estimate(plain.value, centre - half, centre + half, n).clipped(0, 1)


def all_equal(values: ArrayLike) -> bool:
    """Return whether finite values differ by no more than rounding: 10⁻¹² of the largest, or of 1."""
    x = np.asarray(values, dtype=float)
    return float(np.ptp(x)) <= 1e-12 * max(1.0, float(np.abs(x).max()))


@cache
def t_multiplier(n: int, comparisons: int = 1) -> float:
    """Return t₁₋α/₂ₘ,ₙ₋₁ / √n, the half-width of the interval of `mean_estimate` in standard deviations."""
    if comparisons < 1:
        raise ValueError(f"comparisons must be at least 1, got {comparisons}")
    return float(stats.t.isf((1 - CONFIDENCE) / 2 / comparisons, n - 1)) / math.sqrt(n)


def values_deviation(estimate: Estimate, comparisons: int = 1) -> float:
    """Return the standard deviation of the values behind a result of `mean_estimate`, NaN without an interval."""
    if not estimate.has_interval:
        return math.nan
    return estimate.half_width / t_multiplier(estimate.n, comparisons)


@cache  # the cells of a suite have few different counts
def wilson_estimate(count: int, n: int, comparisons: int = 1) -> Estimate:
    """Return a rate with Wilson's 95 % score interval.

    Its ends are the p that solve (count / n - p)² = z² p (1 - p) / n, with z = 1.96 (Wilson, J. Am. Stat. Assoc. 22
    (1927) 209-212). Unlike the usual interval it is not a point if count is 0 or n.

    Args:
        count: number of successes.
        n: number of trials; with 0 there is no rate.
        comparisons: as for `mean_estimate`.
    """
    from statsmodels.stats.proportion import proportion_confint

    if not 0 <= count <= n:
        raise ValueError(f"count must be from 0 to {n}, got {count}")
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    low, high = proportion_confint(count, n, alpha=(1 - CONFIDENCE) / comparisons, method="wilson")
    return Estimate(count / n, float(low), float(high), n)


def jackknife(
    statistic: Callable[[NDArray[np.intp]], float], treatments: int, unit: NDArray[np.intp] | None = None
) -> Estimate:
    """Return a statistic of all treatments, with Student's interval over its jackknife pseudo-values.

    The k pseudo-values are k θ - (k - 1) θ₋ᵢ, θ₋ᵢ without treatment i; the interval uses their standard error around θ
    and Student's t with k - 1 degrees of freedom (Tukey, Ann. Math. Stat. 29 (1958) 614; Efron and Stein, Ann. Stat. 9
    (1981) 586). Leaving out a column leaves out everything peculiar to a treatment, on every workload at once.

    Args:
        statistic: a function of the indices of the treatments to use.
        treatments: their number k; no interval below 5, or if the statistic without one of them is NaN.
        unit: the groups to leave out, (treatments,), as from `permutation.units`; k is then their number.
    """
    every = np.arange(treatments)
    unit = every if unit is None else unit
    each = np.unique(unit)
    k, value = len(each), statistic(every)
    nothing = Estimate(value, math.nan, math.nan, treatments)
    if k < 5 or math.isnan(value):
        return nothing
    without = np.array([statistic(every[unit != u]) for u in each])
    pseudo = mean_estimate(k * value - (k - 1) * without)
    if not pseudo.has_interval:
        return nothing
    return Estimate(value, value - pseudo.half_width, value + pseudo.half_width, treatments)
