"""Test whether treatments differ over workloads, and which: Friedman's test and comparisons of mean ranks."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.decisions import ALPHA, adjust
from initbench.statistics.power import friedman_workloads

if TYPE_CHECKING:
    from numpy.typing import NDArray

MINIMUM_WORKLOADS = 5
_PAIR_COLUMNS = ["first", "second", "difference", "low", "high", "pvalue"]


class RankComparison(NamedTuple):
    """Treatments by their rank within each workload.

    Attributes:
        mean_ranks: by treatment, best (1) first.
        statistic: Friedman's χ², k - 1 degrees of freedom; NaN if there is no test.
        pvalue: p-value of Friedman's test, corrected for unequal spreads.
        pairs: one row per pair: ``first``, ``second`` (treatments), ``difference`` of mean ranks, ``low`` and ``high``:
            the difference ∓ the critical one, a simultaneous 95 % interval; ``pvalue`` after Holm; empty if Friedman's
            test does not reject, because then no pair is tested.
        critical_difference: of mean ranks, NaN if it is not drawn.
        reason: why there is no test or no critical difference, otherwise empty.
        workloads: number of workloads n.
        epsilon: Box's ε, which corrects the p-value.
    """

    mean_ranks: pd.Series[float]
    statistic: float
    pvalue: float
    pairs: pd.DataFrame
    critical_difference: float
    reason: str
    workloads: int
    epsilon: float = 1.0

    @property
    def is_told(self) -> bool:
        """Whether Friedman's test rejects: some treatments differ."""
        return self.pvalue < ALPHA

    @property
    def leaders(self) -> list[str]:
        """The treatments with the least mean rank, several if they share it."""
        return [str(name) for name, mean in self.mean_ranks.items() if mean == self.mean_ranks.iloc[0]]

    @property
    def behind(self) -> pd.DataFrame:
        """The rows of `pairs` of the first treatment with those significantly behind it, the nearest first.

        Both Holm's p-value and the simultaneous interval must show it before anything is claimed.
        """
        apart = (self.pairs["pvalue"] < ALPHA) & (self.pairs["low"] > 0)
        return self.pairs[apart & (self.pairs["first"] == str(next(iter(self.mean_ranks.index), "")))]

    @property
    def needed(self) -> int | None:
        """Number of workloads for Friedman's test to find the observed differences (`power.friedman_workloads`)."""
        if self.workloads == 0 or math.isnan(self.statistic):
            return None
        return friedman_workloads(self.statistic, len(self.mean_ranks), self.workloads, self.epsilon)

    @property
    def needed_for_one_rank(self) -> int | None:
        """Number of workloads to find one mean rank (`workloads_for_one_rank`); None below 2 treatments."""
        return workloads_for_one_rank(len(self.mean_ranks)) if len(self.mean_ranks) > 1 else None


def compare_ranks(outcomes: pd.DataFrame) -> RankComparison:
    """Return Friedman's test over workloads, with post-hoc comparisons of all pairs if it rejects.

    Friedman's χ² with its correction for ties is scipy's. The pairs' z = |R̄ᵢ - R̄ⱼ| / √(k (k + 1) / 6n) is compared
    with the normal distribution and corrected by Holm (Demšar, JMLR 7 (2006) 1-30, section 3.2.2), as in
    scikit-posthocs' `posthoc_siegel_friedman`. The critical difference, q₀.₀₅ √(k (k + 1) / 12n) with the studentized
    range's quantile q (Nemenyi; the same section), needs at least 5 workloads, and must be below the largest possible
    difference, k - 1.

    Friedman's test assumes that all treatments vary alike between workloads; if some vary more it rejects too often
    (docs/statistics.md). The p-value is therefore corrected by Box's ε, as in the analysis of variance: it is the
    p-value of ε χ² with ε (k - 1) degrees of freedom (`sphericity`), and never below Friedman's own.

    Workloads count as independent, although workloads that differ only in depth are not.

    Args:
        outcomes: workloads × treatments without gaps, as from `cells.complete`; +∞ is the worst, equal values share
            their mean rank.
    """
    if outcomes.isna().to_numpy().any():
        raise ValueError("outcomes must have no gaps")
    n, k = outcomes.shape
    nothing = pd.DataFrame(columns=_PAIR_COLUMNS)
    if n == 0 or k == 0:
        return RankComparison(pd.Series(dtype=float), math.nan, math.nan, nothing, math.nan, "no complete table", n)
    ranks = stats.rankdata(outcomes.to_numpy(dtype=float), axis=1)
    means = pd.Series(ranks.mean(axis=0), index=outcomes.columns).sort_values(kind="stable")
    if k < 3 or n < 2:
        few = "2 treatments are compared by their paired differences" if k == 2 else f"{k} treatment to compare"
        reason = few if k < 3 else "1 workload; ranks are compared over several"
        return RankComparison(means, math.nan, math.nan, nothing, math.nan, reason, n)
    if (ranks == ranks[:, :1]).all():
        return RankComparison(means, 0.0, 1.0, nothing, math.nan, "all outcomes are equal", n)
    test = stats.friedmanchisquare(*ranks.T)
    epsilon = sphericity(ranks)
    corrected = stats.chi2.sf(epsilon * test.statistic, epsilon * (k - 1))
    pvalue = float(max(test.pvalue, corrected))
    pairs = _pairs(ranks, list(outcomes.columns)) if pvalue < ALPHA else nothing
    difference, reason = _critical_difference(n, k)
    return RankComparison(means, float(test.statistic), pvalue, pairs, difference, reason, n, epsilon)


def sphericity(ranks: NDArray[np.float64]) -> float:
    """Return Huynh and Feldt's estimate of Box's ε of ranks: 1 if all treatments vary alike, at least 1 / (k - 1).

    With S the covariance of the ranks, ε̂ = (tr S)² / ((k - 1) tr S²), and
    ε̃ = (n (k - 1) ε̂ - 2) / ((k - 1) (n - 1 - (k - 1) ε̂)) within ε̂ … 1 (Huynh and Feldt, J. Educ. Stat. 1 (1976) 69-82).

    Args:
        ranks: shape (workloads n, treatments k), k at least 2; all rows have the same sum.
    """
    n, k = ranks.shape
    covariance = np.cov(ranks, rowvar=False)
    squares = float(np.sum(covariance**2))
    if squares == 0:
        return 1.0
    estimate = float(np.trace(covariance)) ** 2 / ((k - 1) * squares)
    left = n - 1 - (k - 1) * estimate
    corrected = (n * (k - 1) * estimate - 2) / ((k - 1) * left) if left > 1e-9 else 1.0
    return float(min(1.0, max(estimate, corrected)))


def _pairs(ranks: NDArray[np.float64], names: list[str]) -> pd.DataFrame:
    n, k = ranks.shape
    means = ranks.mean(axis=0)
    first, second = np.triu_indices(k, 1)
    z = np.abs(means[first] - means[second]) / np.sqrt(k * (k + 1.0) / (6.0 * n))
    pvalues = np.ones((k, k))
    pvalues[first, second] = pvalues[second, first] = adjust(np.minimum(2.0 * stats.norm.sf(z), 1.0), "holm")
    order = np.argsort(means, kind="stable")
    half = _half_width(n, k)
    rows = []
    for position, i in enumerate(order):
        for j in order[position + 1 :]:
            difference = float(means[j] - means[i])
            row = {"first": names[i], "second": names[j], "difference": difference}
            rows.append(row | {"low": difference - half, "high": difference + half, "pvalue": float(pvalues[i, j])})
    return pd.DataFrame(rows, columns=_PAIR_COLUMNS)


def _half_width(n: int, k: int) -> float:
    return _quantile(k) * math.sqrt(k * (k + 1) / (12 * n))


@cache
def _quantile(k: int) -> float:
    return float(stats.studentized_range.ppf(1 - ALPHA, k, np.inf))


def workloads_for_one_rank(treatments: int) -> int:
    """Return the least number of workloads for which the critical difference is at most one mean rank.

    q₀.₀₅ √(k (k + 1) / 12n) ≤ 1 for n ≥ q² k (k + 1) / 12, q the studentized range's quantile (Nemenyi; Demšar, JMLR 7
    (2006) 1-30, section 3.2.2).
    """
    return max(MINIMUM_WORKLOADS, math.ceil(_half_width(1, treatments) ** 2))


def _critical_difference(n: int, k: int) -> tuple[float, str]:
    if n < MINIMUM_WORKLOADS:
        return math.nan, f"{n} workloads; a critical difference is given from {MINIMUM_WORKLOADS} on"
    difference = _half_width(n, k)
    if difference >= k - 1:
        return math.nan, f"{n} workloads; the critical difference exceeds the largest that {k} treatments can have"
    return difference, ""
