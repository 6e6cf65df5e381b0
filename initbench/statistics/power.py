"""The difference that a suite can detect, and the number of seeds that a difference needs."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special, stats

from initbench.statistics.association import SPEARMAN
from initbench.statistics.cells import trial_outcomes
from initbench.statistics.intervals import CONFIDENCE, MINIMUM_SEEDS, values_deviation
from initbench.statistics.seed_variance import (
    BLOCK_SEEDS,
    FEW_SEEDS,
    SeedVariance,
    conditions,
    pair_moments,
    variances,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.statistics.intervals import Estimate

    Array = NDArray[np.float64]

ALPHA = 1 - CONFIDENCE
POWER = 0.8
MAXIMUM_SEEDS = 10_000
_PAIRS = 300_000  # of simulated treatments, if they are in 100 to 1,000 suites
_QUANTILES = 1000  # of their half-widths


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

    On each workload, for the I treatments that are better than chance at all S seeds, the mean over pairs of the
    variance of their differences is 2 MS, MS = Σ (eᵢₛ - ēᵢ - ēₛ + ē)² / ((I - 1)(S - 1)); workloads are pooled by their
    degrees of freedom (I - 1)(S - 1). If chance is unknown, these are the treatments that do not diverge.

    Returns:
        NaN with 0 degrees of freedom if no workload has 2 such treatments and 2 seeds.
    """
    squares, freedom, workloads = 0.0, 0, 0
    results = trial_outcomes(trials)
    learned = results.assign(outcome=results["outcome"].where(results["is_trained"] != 0))
    for _, outcomes in learned.groupby("workload", sort=False):
        wide = outcomes.pivot(index="treatment", columns="seed", values="outcome")  # noqa: PD010  # it refuses duplicates
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


@lru_cache(maxsize=1024)
def planning_spread(spread: float, freedom: float, comparisons: int = 1) -> float:
    """Return the spread to plan with, so that power is 80 % on average over estimates of the spread.

    A difference of z = z₁₋α/₂ₘ + z₀.₈ standard errors is found with a chance of 80 % if they are known. With the
    estimate ŝ = s √(χ²ᵥ / ν), the difference c z ŝ / √S is found with the chance P((Z + z₁₋α/₂ₘ) / √(χ²ᵥ / ν) ≤ c z), a
    noncentral t. It is 80 % at c = t'₀.₈ / z; the result is c ŝ.

    Args:
        spread: ŝ.
        freedom: ν, the degrees of freedom of the estimate; 0 if the spread is known.
        comparisons: m.
    """
    if not freedom or math.isnan(spread):
        return spread
    z = float(stats.norm.isf(ALPHA / comparisons / 2))
    return spread * float(stats.nct.ppf(POWER, freedom, z)) / (z + float(stats.norm.ppf(POWER)))


def power(
    difference: float, spread: float, seeds: int, comparisons: int = 1, treatments: int = 2, workloads: int = 1
) -> float:
    """Return the chance that the test of two treatments on one workload finds their difference.

    It is the mean of Φ((δ - h) √S / s) + Φ((-δ - h) √S / s) over the half-width h of the interval. From 8 seeds on, and
    for 2 treatments on 1 workload, h is Student's, which is the noncentral t of Cohen, Statistical Power Analysis
    (1988), section 2.3. Otherwise `seed_variance` judges simulated suites of normal outcomes with equal variances.

    Args:
        difference: δ, the true difference of the mean errors, as a fraction.
        spread: s, the standard deviation of the paired difference, as a fraction.
        seeds: S, at least 2.
        comparisons: m; α = 5 % is divided by it, as in the hardest step of Holm's procedure, so if other pairs differ
            too the chance is larger.
        treatments: k, the number in the suite.
        workloads: the number in the suite.
    """
    if spread == 0:
        return 1.0 if difference else 0.0
    effect = abs(difference) / spread
    half_widths, weights = _half_widths(seeds, comparisons, treatments, workloads)
    # Not statsmodels' ttest_power: it uses scipy's noncentral t, which is NaN or 0 for many λ and ν used here.
    chance = sum(special.ndtr((side - half_widths) * math.sqrt(seeds)) for side in (effect, -effect))
    return float(np.sum(weights * chance))


@lru_cache(maxsize=1024)
def _half_widths(seeds: int, comparisons: int, treatments: int, workloads: int) -> tuple[Array, Array]:
    """Return half-widths of a pair's interval, in units of the spread, and their weights."""
    tail = ALPHA / comparisons / 2
    if seeds > BLOCK_SEEDS or (treatments, workloads) == (2, 1):
        nodes, weights = _nodes()
        deviation = np.sqrt(stats.chi2.ppf((nodes + 1) / 2, seeds - 1) / (seeds - 1))
        return float(stats.t.isf(tail, seeds - 1)) / math.sqrt(seeds) * deviation, weights / 2
    half = np.array(math.nan)
    for variance, freedom in _simulated(seeds, treatments, workloads):
        half = np.fmax(half, stats.t.isf(tail, freedom) * np.sqrt(variance / seeds))
    return np.quantile(half, (np.arange(_QUANTILES) + 0.5) / _QUANTILES), np.full(_QUANTILES, 1 / _QUANTILES)


@lru_cache(maxsize=8)
def _simulated(seeds: int, treatments: int, workloads: int) -> list[tuple[Array, Array]]:
    """Return the `seed_variance.conditions` of all pairs of simulated suites whose paired differences have variance 1.

    Suites with more than 20 workloads or 30 treatments find a little more than these numbers, at which they are
    simulated. With more than `FEW_SEEDS` seeds each workload is judged by itself, so one is simulated.
    """
    k, w = min(treatments, 30), min(workloads, 20) if seeds <= FEW_SEEDS else 1
    number = min(1000, max(100, _PAIRS // (w * k * (k - 1) // 2)))
    x = np.random.default_rng(0).standard_normal((number, w, k, seeds)) / math.sqrt(2)
    of = SeedVariance(*(array[..., None] for array in variances(x)))
    return conditions(pair_moments(x)[1], seeds, of)


@cache
def _nodes() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def detectable_difference(
    spread: float, seeds: int, comparisons: int = 1, treatments: int = 2, workloads: int = 1
) -> float:
    """Return the true difference that is found at 80 % power, as a fraction of error; arguments as for `power`."""
    from scipy.optimize import brentq

    if seeds < MINIMUM_SEEDS or math.isnan(spread):
        return math.nan
    if spread == 0:
        return 0.0
    # In units of the spread; at the upper end even the widest interval surely excludes 0.
    most = float(_half_widths(seeds, comparisons, treatments, workloads)[0].max()) + 10 / math.sqrt(seeds)
    return spread * float(brentq(lambda d: power(d, 1.0, seeds, comparisons, treatments, workloads) - POWER, 0.0, most))


def resolution(variance: SeedVariance, seeds: int, treatments: int, workloads: int, comparisons: int) -> float:
    """Return the true difference that is found at 80 % power on a workload with these variances; NaN if unknown."""
    return detectable_difference(_block_spread(variance, comparisons), seeds, comparisons, treatments, workloads)


def seeds_needed(
    difference: float,
    spread: float,
    comparisons: int = 1,
    treatments: int = 2,
    workloads: int = 1,
    more_than: int = MINIMUM_SEEDS - 1,
) -> int | None:
    """Return the least number of seeds that finds a difference at 80 % power, as every larger number does.

    Fewer may do, too, see `few_seeds_needed`. None if 10,000 are not enough.

    Args:
        difference: as for `power`, like the arguments that follow.
        spread: NaN if unknown; the result is then None.
        comparisons: m.
        treatments: k.
        workloads: number of workloads.
        more_than: a number of seeds that was not enough.
    """
    if math.isnan(spread):
        return None
    suite = (comparisons, treatments, workloads)
    needed = _least(lambda seeds: power(difference, spread, seeds, *suite) >= POWER, max(FEW_SEEDS, more_than))
    few = few_seeds_needed(difference, spread, *suite, more_than) if needed == FEW_SEEDS + 1 else None
    return needed if few is None else few


def few_seeds_needed(
    difference: float,
    spread: float,
    comparisons: int = 1,
    treatments: int = 2,
    workloads: int = 1,
    more_than: int = MINIMUM_SEEDS - 1,
) -> int | None:
    """Return the least number of up to 5 seeds that finds a difference at 80 % power; None if 5 are not enough.

    More than 5 seeds can need a larger difference: a pair then has to differ by its own variance, which is not shrunk.
    Up to 5 and from 6 on, power grows with the seeds.
    """
    enough = None
    for seeds in range(FEW_SEEDS, more_than, -1):
        if power(difference, spread, seeds, comparisons, treatments, workloads) < POWER:
            break
        enough = seeds
    return enough


def seeds_to_find(
    difference: float,
    variance: SeedVariance,
    treatments: int,
    workloads: int,
    comparisons: int,
    more_than: int = MINIMUM_SEEDS - 1,
) -> int | None:
    """Return `seeds_needed` on a workload with these variances."""
    spread = _block_spread(variance, comparisons)
    return seeds_needed(difference, spread, comparisons, treatments, workloads, more_than)


def _block_spread(variance: SeedVariance, comparisons: int) -> float:
    return planning_spread(math.sqrt(variance.block), float(variance.freedom), comparisons)


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

    The spread is recovered from the interval, which must be Student's: over workloads, but not over seeds, for which
    there is `seeds_to_find`. None if 10,000 are not enough.
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
