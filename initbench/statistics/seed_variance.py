"""The variance of paired differences over seeds: of a pair, of its workload, and of the suite.

A pair's own variance from three to five seeds has too few degrees of freedom to find anything, and where some seeds
train and others do not it can be tiny by luck. So a difference has to be significant by several variances: the pair's
own, shrunk toward its workload's by a careful amount; the workload's; and with few treatments also the suite's. From
six seeds on a pair's own variance is not shrunk, and from eight on it decides alone. docs/statistics.md has the sources
and the simulations.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special, stats

from initbench.statistics.cells import all_learn, none_learns
from initbench.statistics.intervals import CONFIDENCE, MINIMUM_SEEDS, Estimate, mean_estimate

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]
    Flags = NDArray[np.bool_]

FEW_SEEDS = 5
"""Up to this number of seeds, a pair's own variance is shrunk toward its workload's."""
BLOCK_SEEDS = 7
"""Up to this number of seeds, the workload's variance decides too: seeds that fail can agree by luck."""
_CAREFUL = 0.25  # lower quantile of χ², for an upper limit of the variance of log variances
_FEW_TREATMENTS = 4  # up to this number, a workload's variance needs the suite's beside it
_MOST_FREEDOM = 1e3  # of the prior; more is the same


class SeedVariance(NamedTuple):
    """The variances of paired differences on a workload, or arrays of them, (..., workloads).

    Attributes:
        block: the mean over all pairs of treatments of the variance of their differences, which is twice the mean
            square error of the randomized block design; NaN if there is none.
        freedom: its degrees of freedom, (treatments - 1) (seeds - 1).
        prior_freedom: the degrees of freedom d₀ that `block` has beside a pair's own variance.
        suite: the variance of all workloads together, in the units of this one; NaN if `block` is enough.
        suite_freedom: its degrees of freedom.
    """

    block: Array
    freedom: Array
    prior_freedom: Array
    suite: Array
    suite_freedom: Array


def scores(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the oriented outcomes, none worse than chance: workloads and seeds × treatments, NaN without a result.

    An outcome worse than chance is luck, so it counts as chance, as a diverged trial does. If chance is unknown, a
    diverged trial has no score.
    """
    results = trials[trials["oriented"].notna()]
    score = np.fmin(results["oriented"].to_numpy(dtype=float), results["oriented_chance"].to_numpy(dtype=float))
    score = np.where(np.isinf(score), math.nan, score)
    known = results[["workload", "seed", "treatment"]].assign(score=score)
    return known.pivot(index=["workload", "seed"], columns="treatment", values="score")  # noqa: PD010  # it refuses duplicates


def seed_variances(trials: pd.DataFrame) -> dict[str, SeedVariance]:
    """Return the variances of a suite's trials by workload."""
    wide = scores(trials)
    groups = {str(workload): table.to_numpy(dtype=float).T for workload, table in wide.groupby(level="workload")}
    if not groups:
        return {}
    x = np.full((len(groups), wide.shape[1], max(table.shape[1] for table in groups.values())), math.nan)
    for row, table in zip(x, groups.values(), strict=True):
        row[:, : table.shape[1]] = table
    arrays = variances(x, _units(trials, list(groups)))
    return {name: SeedVariance(*(array[i] for array in arrays)) for i, name in enumerate(groups)}


class SuiteVariances(NamedTuple):
    """The variances of the two questions that a suite is asked.

    Attributes:
        training: by workload, from the scores of all treatments: whether they train.
        outcome: by workload, from those that learn at every seed: how well. A treatment that fails at some seeds, or
            that learns at all and trains at some, says nothing about how much the outcomes of the others vary.
        alike: the workloads and treatments that `outcome` is computed from.
        agreed: the workloads and treatments that learn at every seed or at none.
    """

    training: dict[str, SeedVariance]
    outcome: dict[str, SeedVariance]
    alike: set[tuple[str, str]]
    agreed: set[tuple[str, str]]

    def of(self, workload: str, first: str, second: str) -> SeedVariance:
        """Return the variances for a pair of treatments on a workload."""
        return (self.outcome if {(workload, first), (workload, second)} <= self.alike else self.training)[workload]

    def on(self, first: str, second: str) -> dict[str, SeedVariance]:
        """Return the variances for a pair of treatments on each workload where the seeds of each agree on learning."""
        on = [workload for workload in self.training if {(workload, first), (workload, second)} <= self.agreed]
        return {workload: self.of(workload, first, second) for workload in on}


def suite_variances(trials: pd.DataFrame, cells: pd.DataFrame) -> SuiteVariances:
    """Return the variances of a suite's trials and their cells."""
    learns = all_learn(cells)
    trains_at_some = (cells["trains"] > 0) & (cells["trains"] < cells["seeds"])
    alike, agreed = (
        set(zip(rows["workload"], rows["treatment"], strict=True))
        for rows in (cells[learns & ~trains_at_some], cells[learns | none_learns(cells)])
    )
    pairs = zip(trials["workload"], trials["treatment"], strict=True)
    outcome = seed_variances(trials[[pair in alike for pair in pairs]])
    return SuiteVariances(seed_variances(trials), outcome, alike, agreed)


def _units(trials: pd.DataFrame, workloads: list[str]) -> Array:
    """Return the unit of each workload's outcomes: from chance to the best value, or 1 if all share a metric."""
    first = trials.assign(unit=trials["oriented_chance"] - trials["oriented_best"]).groupby("workload").first()
    units = first["unit"].reindex(workloads).to_numpy(dtype=float)
    return np.ones(len(workloads)) if np.isnan(units).any() and len(set(trials["metric"].dropna())) == 1 else units


def variances(x: Array, unit: ArrayLike = 1.0) -> SeedVariance:
    """Return the variances of a suite, or of many suites at once.

    The degrees of freedom d₀ of the prior follow from how much the pairs' variances s² differ within workloads: log s²
    has the variance ψ′(d/2) + ψ′(d₀/2), d = seeds - 1 (Smyth, Stat. Appl. Genet. Mol. Biol. 3 (2004) 3, section 6.2).
    The careful d₀ takes the upper limit of a one-sided 75 % interval for that variance, treating the k treatments of a
    workload as k - 2 independent values; it is at most the degrees of freedom of `block` that are not the pair's own,
    (k - 2) d. Pairs whose differences are all equal say nothing about d₀.

    Args:
        x: scores, (..., workloads, treatments, seeds); NaN if there is none.
        unit: (..., workloads), by which the scores of workloads are divided to compare them; NaN if unknown.
    """
    _, variance, seeds = pair_moments(x)
    known, d = seeds > 1, np.maximum(seeds - 1, 1)
    treatments = (~np.isnan(x)).any(axis=-1).sum(axis=-1)
    block = _mean(variance, known)
    least = np.where(known, d, np.inf).min(axis=-1, initial=np.inf)
    freedom = np.where(known.any(axis=-1), (treatments - 1) * np.where(np.isinf(least), 1, least), 0)
    with np.errstate(all="ignore"):
        numbers = (~np.isnan(x)).sum(axis=(-2, -1), keepdims=True)
        deviation = x - np.nansum(x, axis=(-2, -1), keepdims=True) / numbers
        total = np.nansum(deviation**2, axis=(-2, -1)) / numbers[..., 0, 0]
        pooled = [_over_suite(block / scale, freedom) * scale for scale in (np.asarray(unit, dtype=float) ** 2, total)]
    prior = _prior_freedom(variance, d, known & (variance > 0), treatments)[..., None]
    others = freedom * (treatments - 2) / np.maximum(treatments - 1, 1)
    has_more = (freedom > 0).sum(axis=-1, keepdims=True) > 1
    return SeedVariance(
        block,
        freedom,
        np.clip(prior, 0, np.maximum(others, 0)),
        np.where((treatments <= _FEW_TREATMENTS) & has_more, np.fmin(*pooled), math.nan),
        np.broadcast_to(freedom.sum(axis=-1, keepdims=True), block.shape),
    )


def pair_moments(x: Array) -> tuple[Array, Array, Array]:
    """Return the mean and the variance of the paired differences, and the seeds that both have, each (..., pairs).

    Args:
        x: scores, (..., treatments, seeds); NaN if there is none.
    """
    first, second = _pairs(x.shape[-2])
    difference = x[..., first, :] - x[..., second, :]
    known = ~np.isnan(difference)
    seeds, difference = known.sum(axis=-1), np.where(known, difference, 0.0)
    mean = difference.sum(axis=-1) / np.maximum(seeds, 1)
    residual = np.where(known, difference - mean[..., None], 0.0)
    variance = (residual**2).sum(axis=-1) / np.maximum(seeds - 1, 1)
    rounding = 1e-12 * np.maximum(1.0, np.abs(difference).max(axis=-1, initial=0.0))
    return mean, np.where(variance <= rounding**2, 0.0, variance), seeds


def conditions(variance: ArrayLike, seeds: ArrayLike, of: SeedVariance | None) -> list[tuple[Array, Array]]:
    """Return the variances that a paired difference must all exceed to be significant, with their degrees of freedom.

    Args:
        variance: s², of the pair's own differences.
        seeds: n, their number.
        of: the workload's; None to judge by the pair's own alone.
    """
    s2, n = np.asarray(variance, dtype=float), np.asarray(seeds, dtype=float)
    d = n - 1
    if of is None:
        return [(s2, d)]
    is_few, needs_block = n <= FEW_SEEDS, n <= BLOCK_SEEDS
    prior = np.where(is_few, of.prior_freedom, 0.0)
    with np.errstate(all="ignore"):
        shrunk = (np.where(prior > 0, prior * of.block, 0.0) + d * s2) / (prior + d)
    block, suite = np.where(needs_block, of.block, math.nan), np.where(is_few, of.suite, math.nan)
    return [(shrunk, prior + d), (block, of.freedom), (suite, of.suite_freedom)]


def pvalue(mean: ArrayLike, variance: ArrayLike, seeds: ArrayLike, of: SeedVariance | None = None) -> Array:
    """Return the largest of the two-sided p-values of a paired difference by its `conditions`; 1 if it has none."""
    mu, n = np.asarray(mean, dtype=float), np.asarray(seeds, dtype=float)
    largest = np.where((n < MINIMUM_SEEDS) | (mu == 0), 1.0, math.nan)
    with np.errstate(all="ignore"):
        for s2, freedom in conditions(variance, n, of):
            t = np.abs(mu) / np.sqrt(s2 / n)
            largest = np.fmax(largest, np.where(s2 > 0, 2 * special.stdtr(freedom, -t), math.nan))
    return np.where(np.isnan(largest), 1.0, largest)


def difference_estimate(differences: ArrayLike, of: SeedVariance | None = None, comparisons: int = 1) -> Estimate:
    """Return the mean of paired differences with the widest of the intervals by its `conditions`.

    It excludes 0 if and only if `pvalue` is below 5 % / comparisons.

    Args:
        differences: shape (n,), of seeds that both treatments have; no mean if one is not finite.
        of: the workload's variances; None for Student's interval from the differences alone.
        comparisons: m, see `intervals.mean_estimate`.
    """
    x = np.asarray(differences, dtype=float)
    if of is None:
        return mean_estimate(x, comparisons)
    plain = mean_estimate(x)
    if len(x) < MINIMUM_SEEDS or math.isnan(plain.value):
        return plain
    _, s2, _ = pair_moments(np.stack([x, np.zeros_like(x)]))
    half = float(half_width(s2[0], len(x), of, comparisons))
    return Estimate(plain.value, plain.value - half, plain.value + half, len(x))


def half_width(variance: ArrayLike, seeds: ArrayLike, of: SeedVariance, comparisons: ArrayLike) -> Array:
    """Return half the width of the widest of the intervals by the `conditions` of a pair; NaN if there is none.

    Args:
        variance: s², of the pair's own differences.
        seeds: n, their number.
        of: the workload's.
        comparisons: m, see `intervals.mean_estimate`.
    """
    n = np.asarray(seeds, dtype=float)
    tail, widest = (1 - CONFIDENCE) / 2 / np.asarray(comparisons, dtype=float), np.full(n.shape, math.nan)
    with np.errstate(all="ignore"):
        for s2, freedom in conditions(variance, n, of):
            half = -special.stdtrit(freedom, tail) * np.sqrt(s2 / n)
            widest = np.fmax(widest, np.where((s2 > 0) & (n >= MINIMUM_SEEDS), half, math.nan))
    return widest


@cache
def _pairs(treatments: int) -> tuple[list[int], list[int]]:
    pairs = list(combinations(range(treatments), 2))
    return [first for first, _ in pairs], [second for _, second in pairs]


def _mean(values: Array, known: Flags) -> Array:
    """Return the mean of the known values over the last axis; NaN if there is none."""
    count = known.sum(axis=-1)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(count, 1), math.nan)


def _over_suite(ratio: Array, freedom: Array) -> Array:
    """Return the mean of the workloads' variances, each in its own unit, weighted by degrees of freedom."""
    weight = np.where(np.isnan(ratio), 0.0, freedom)
    return (np.nan_to_num(ratio) * weight).sum(axis=-1, keepdims=True) / weight.sum(axis=-1, keepdims=True)


def _prior_freedom(variance: Array, d: Array, known: Flags, treatments: Array) -> Array:
    """Return d₀ of each suite; 0 if the workloads have fewer than 3 treatments."""
    half = d / 2
    with np.errstate(all="ignore"):
        z = np.log(np.where(known, variance, 1.0)) - special.digamma(half) + np.log(half)
    deviation = np.where(known, z - _mean(z, known)[..., None], 0.0)
    pairs, workloads = known.sum(axis=(-2, -1)), known.any(axis=-1)
    independent = np.where(workloads, np.maximum(treatments - 2, 0), 0).sum(axis=-1)
    spread = (deviation**2).sum(axis=(-2, -1)) / np.maximum(pairs - workloads.sum(axis=-1), 1)
    careful = spread * independent / stats.chi2.ppf(_CAREFUL, np.maximum(independent, 1))
    trigamma = special.polygamma(1, np.arange(1, d.max(initial=1) + 1) / 2)[d - 1]  # of d / 2; slow for each pair
    by_chance = np.where(known, trigamma, 0.0).sum(axis=(-2, -1)) / np.maximum(pairs, 1)
    freedom = 2 * _inverse_trigamma(careful - by_chance)
    return np.where(independent > 0, np.minimum(freedom, _MOST_FREEDOM), 0.0)


def _inverse_trigamma(value: Array) -> Array:
    """Return x with ψ′(x) = value, by Newton's method (Smyth 2004, appendix); ∞ for values that are not positive."""
    is_positive = value > 1e-6
    y = np.where(is_positive, value, 1.0)
    x = 0.5 + 1 / y
    for _ in range(50):
        trigamma = special.polygamma(1, x)
        x = x + trigamma * (1 - trigamma / y) / special.polygamma(2, x)
    return np.where(is_positive, x, math.inf)
