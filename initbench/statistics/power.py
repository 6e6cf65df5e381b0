"""The difference that a suite can detect, and the number of seeds that a difference needs."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from initbench.statistics.association import SPEARMAN
from initbench.statistics.cells import trial_outcomes
from initbench.statistics.intervals import CONFIDENCE, MINIMUM_SEEDS, values_deviation

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.statistics.intervals import Estimate

ALPHA = 1 - CONFIDENCE
POWER = 0.8
MAXIMUM_SEEDS = 10_000


class SeedSpread(NamedTuple):
    """How much the errors of two treatments on one workload differ from seed to seed.

    Attributes:
        difference: standard deviation of the paired difference, in fractions of error.
        degrees_of_freedom: degrees of freedom of the estimate; 0 for a stated value.
        workloads: number of workloads in the pilot.
    """

    difference: float
    degrees_of_freedom: int
    workloads: int


def stated_spread(seed_deviation: float) -> SeedSpread:
    """Return the spread of the difference of two errors with the given standard deviation: √2 times that."""
    if not 0 < seed_deviation < math.inf:
        raise ValueError(f"the seeds' standard deviation must be positive, got {seed_deviation}")
    return SeedSpread(math.sqrt(2) * seed_deviation, 0, 0)


def pilot_spread(trials: pd.DataFrame) -> SeedSpread:
    """Return the spread of paired differences in a pilot, pooled over its workloads.

    On each workload, for the I treatments that finished at all S seeds, the mean over pairs of the variance of their
    differences is 2 MS, MS = Σ (eᵢₛ - ēᵢ - ēₛ + ē)² / ((I - 1)(S - 1)); workloads are pooled by their degrees of
    freedom (I - 1)(S - 1). A diverged trial has no error, so its treatment is left out on that workload.

    Returns:
        NaN with 0 degrees of freedom if no workload has 2 such treatments and 2 seeds.
    """
    squares, freedom, workloads = 0.0, 0, 0
    for _, own in trial_outcomes(trials).groupby("workload", sort=False):
        wide = own.pivot(index="treatment", columns="seed", values="outcome")  # noqa: PD010  # it refuses duplicates
        wide = wide.replace(np.inf, np.nan).dropna()
        rows, columns = wide.shape
        if min(rows, columns) < 2:
            continue
        x = wide.to_numpy(dtype=float)
        residual = x - x.mean(axis=1, keepdims=True) - x.mean(axis=0) + x.mean()
        squares += float(np.sum(residual**2))
        freedom += (rows - 1) * (columns - 1)
        workloads += 1
    return SeedSpread(math.sqrt(2 * squares / freedom) if freedom else math.nan, freedom, workloads)


def power(difference: float, spread: float, seeds: int, comparisons: int = 1) -> float:
    """Return the probability that the paired t test of two treatments on one workload finds their difference.

    P(|T| > t), T noncentral with ν = S - 1 degrees of freedom and noncentrality λ = δ √S / s, t = t₁₋α/₂ₘ,ν (Cohen,
    Statistical Power Analysis (1988), section 2.3), as the mean of Φ(λ - t u) + Φ(-λ - t u) over u = √(χ²ᵥ / ν).

    Args:
        difference: δ, the true difference of the mean errors, as a fraction.
        spread: s, the standard deviation of the paired difference, as a fraction.
        seeds: S, at least 2.
        comparisons: m; α = 5 % is divided by it, as in the hardest step of Holm's procedure.
    """
    if spread == 0:
        return 1.0 if difference else 0.0
    freedom, shift = seeds - 1, abs(difference) / spread * math.sqrt(seeds)
    t = float(stats.t.isf(ALPHA / comparisons / 2, freedom))
    # Not statsmodels' ttest_power: it uses scipy's noncentral t, which is NaN or 0 for many λ and ν used here.
    u, weights = _quadrature(freedom)
    return float(np.sum(weights / 2 * (stats.norm.cdf(shift - t * u) + stats.norm.cdf(-shift - t * u))))


@lru_cache(maxsize=1024)
def _quadrature(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the nodes of the mean over u, and their weights."""
    nodes, weights = _nodes()
    return np.sqrt(stats.chi2.ppf((nodes + 1) / 2, freedom) / freedom), weights


@cache
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def detectable_difference(spread: float, seeds: int, comparisons: int = 1) -> float:
    """Return the true difference that is found at 80 % power, as a fraction of error."""
    from scipy.optimize import brentq

    if seeds < MINIMUM_SEEDS or math.isnan(spread):
        return math.nan
    if spread == 0:
        return 0.0
    # In units of the spread; at the upper end the mean is so many standard errors beyond t that it is surely found.
    quantile = float(stats.t.isf(ALPHA / comparisons / 2, seeds - 1))
    most = 2 * (quantile + 10) / math.sqrt(seeds)
    return spread * float(brentq(lambda d: power(d, 1.0, seeds, comparisons) - POWER, 0.0, most))


def seeds_needed(difference: float, spread: float, comparisons: int = 1) -> int | None:
    """Return the least number of seeds, at least 3, to find a difference at 80 % power; None above 10,000."""
    if math.isnan(spread):
        return None
    return _least(lambda seeds: power(difference, spread, seeds, comparisons) >= POWER, MINIMUM_SEEDS - 1)


def _least(enough: Callable[[int], bool], low: int) -> int | None:
    """Return the least number above `low` that is enough (larger numbers are, too); None if 10,000 are not."""
    high = MAXIMUM_SEEDS
    if not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def number_needed(estimate: Estimate, comparisons: int = 1) -> int | None:
    """Return how many values find a mean of the observed size, at the observed spread, at 80 % power.

    The spread is recovered from the interval, which is a known multiple of it. None if 10,000 are not enough.
    """
    return seeds_needed(estimate.value, values_deviation(estimate, comparisons), comparisons)


def friedman_workloads(statistic: float, treatments: int, workloads: int, epsilon: float = 1.0) -> int | None:
    """Return how many workloads Friedman's test needs to find rank differences of the observed size, at 80 % power.

    χ² is n times a function of the mean ranks. With n' workloads it is approximately noncentral χ² with k - 1 degrees
    of freedom and λ = n' (χ² - (k - 1)) / n: k - 1 is the mean for equal treatments. The limit is the corrected one of
    `ranks.compare_ranks`.

    Args:
        statistic: χ².
        treatments: k.
        workloads: n, which was not enough: the result is larger.
        epsilon: Box's ε.

    Returns:
        The number, or None if χ² is at most k - 1 or 10,000 are not enough.
    """
    freedom = treatments - 1
    effect = (statistic - freedom) / workloads
    if effect <= 0:
        return None
    limit = max(float(stats.chi2.isf(ALPHA, epsilon * freedom)) / epsilon, float(stats.chi2.isf(ALPHA, freedom)))
    return _least(lambda number: float(stats.ncx2.sf(limit, freedom, number * effect)) >= POWER, workloads)


def detectable_correlation(treatments: int) -> float:
    """Return the ρ between a probe and the outcome that is found at 80 % power, if all workloads agree.

    tanh((z₀.₉₇₅ + z₀.₈) √(1.06 / (n - 3))) with n treatments. This is the worst case: if all workloads share the
    peculiarities of a treatment, only more treatments help, more workloads do not.
    """
    if treatments < 5:
        return math.nan
    factor, lost = SPEARMAN
    quantiles = float(stats.norm.ppf(1 - ALPHA / 2) + stats.norm.ppf(POWER))
    return math.tanh(quantiles * math.sqrt(factor / (treatments - lost)))


def correlation_treatments(rho: float, comparisons: int = 1, more_than: int = 4) -> int | None:
    """Return how many treatments find a ρ at 80 % power, if all workloads agree: 3 + 1.06 (z / Z)².

    z = z₁₋α/₂ₘ + z₀.₈ and Z = arctanh |ρ|; with m = 1 the inverse of `detectable_correlation`. It is large enough for a
    perfect order and its mirror image to be less than α / m of the k! orders. None if 10,000 are not enough.

    Args:
        rho: a rank correlation.
        comparisons: m, the number of probes in the correction.
        more_than: a number that was not enough.
    """
    factor, lost = SPEARMAN
    quantiles = float(stats.norm.isf(ALPHA / 2 / comparisons) + stats.norm.ppf(POWER))
    needed = lost if abs(rho) >= 1 else lost + factor * (quantiles / math.atanh(abs(rho))) ** 2 if rho else math.inf
    if needed > MAXIMUM_SEEDS:
        return None
    least = next(k for k in range(2, 100) if 2 * comparisons / math.factorial(k) < ALPHA)
    return max(least, more_than + 1, math.ceil(needed))
