"""How often a treatment diverges, and whether a probe predicts divergence."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.association import aligned
from initbench.statistics.decisions import is_rejected
from initbench.statistics.intervals import Estimate, jackknife, wilson_estimate
from initbench.statistics.permutation import (
    PERMUTATIONS,
    TESTABLE,
    Parts,
    label_permutations,
    permuted_statistics,
    share_as_extreme,
    units,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def divergence_rates(cells: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return how often each treatment diverges, by workload, the unit of analysis.

    Args:
        cells: cells of the treatments, as from `cells.cells`.
        trials: as from `cells.trial_outcomes`; a trial that is in two workloads is counted once.

    Returns:
        ``treatment``; ``workloads``: its number of workloads; ``rate``: the share of these on which at least one seed
            diverged, with Wilson's interval ``rate_low, rate_high``, simultaneous over the treatments; ``trials`` and
            ``trials_diverged``, which have no interval because the seeds of one workload are not independent.
    """
    names = list(dict.fromkeys(cells["treatment"]))
    each = trials.drop_duplicates(["treatment", "trial_id"]).groupby("treatment")["status"]
    counts = each.agg(trials="size", trials_diverged=lambda status: (status == "diverged").sum()).reindex(names)
    rows = []
    for name, diverged in (cells["diverged"] > 0).groupby(cells["treatment"], sort=False):
        rate = wilson_estimate(int(diverged.sum()), len(diverged), len(names))
        rows.append((name, rate.n, rate.value, rate.low, rate.high))
    frame = pd.DataFrame(rows, columns=["treatment", "workloads", "rate", "rate_low", "rate_high"])
    return frame.join(counts.fillna(0).astype(int), on="treatment")


class DivergencePrediction(NamedTuple):
    """A probe as a predictor of divergence.

    Attributes:
        auroc: area under the ROC curve, 0.5 for no relation, with an interval over the treatments, which n counts.
        pvalue: two-sided, from the joint permutation test; NaN if nothing could be rejected.
        pairs: pairs of a diverged and another cell of the same workload.
    """

    auroc: Estimate
    pvalue: float
    pairs: int

    @property
    def is_testable(self) -> bool:
        """Whether there is a test; below 5 treatments there is none, and the area is meaningless."""
        return not math.isnan(self.pvalue)

    def foretells(self, pvalue: float | None = None) -> bool:
        """Return whether the probe predicts which cells diverge: the test rejects and the interval agrees."""
        return is_rejected(self.pvalue if pvalue is None else pvalue, self.auroc, 0.5)


def predict_divergence(
    probe: pd.DataFrame, diverged: pd.DataFrame, *, parts: Parts | None = None
) -> DivergencePrediction:
    """Return how well a high value of a probe separates the cells that diverged from the others.

    The AUROC is P(x⁺ > x⁻) + P(x⁺ = x⁻) / 2 over all pairs of a diverged cell and another *of the same workload*
    (Hanley and McNeil, Radiology 143 (1982) 29-36, stratified), so that a workload on which everything diverges, and
    all values are high, adds nothing. The labels are permuted jointly, as in `permutation.permutation_test`.

    Args:
        probe: workloads × treatments, NaN if missing.
        diverged: likewise, positive for a cell with a diverged seed, 0 for other cells, NaN if not run.
        parts: as for `permutation.permutation_test`.
    """
    x, y = aligned(probe, diverged)
    used = np.asarray(~np.isnan(x).all(axis=0))
    exchanged = units(diverged.columns[used], parts)
    x, positive = x[:, used], np.where(np.isnan(y), np.nan, y > 0)[:, used]
    width = x.shape[1]
    ranks = _ranks(x)
    pairs = int(_pairs(positive))
    nothing = Estimate(math.nan, math.nan, math.nan, width)
    if pairs == 0:
        return DivergencePrediction(nothing, math.nan, 0)

    def area(columns: NDArray[np.intp]) -> float:
        count = _pairs(positive[:, columns])
        return float(_rank_sum(_ranks(x[:, columns]), positive[:, columns]) / count) if count else math.nan

    estimate = jackknife(area, width, exchanged[0]).clipped(0, 1)
    permutations, number = label_permutations(~np.isnan(x), exchanged)
    if number < TESTABLE:
        return DivergencePrediction(estimate, math.nan, pairs)
    # The area is linear in the ranks: a sum over cells of rank times label, minus a term that depends on the labels.
    products = np.einsum("aj,ai->ji", np.nan_to_num(ranks), np.nan_to_num(positive))
    permuted = permuted_statistics(products, permutations)
    constant = np.nansum(_least_rank_sums(positive))
    centre = constant + pairs / 2
    observed = abs(estimate.value - 0.5) * pairs
    pvalue = share_as_extreme(np.abs(permuted - centre), observed, exhaustive=number <= PERMUTATIONS)
    return DivergencePrediction(estimate, pvalue, pairs)


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return stats.rankdata(x, axis=1, nan_policy="omit")


def _pairs(positive: NDArray[np.float64]) -> float:
    return float(np.sum(np.nansum(positive, axis=1) * np.nansum(1 - positive, axis=1)))


def _least_rank_sums(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    m = np.nansum(positive, axis=1)
    return m * (m + 1) / 2


def _rank_sum(ranks: NDArray[np.float64], positive: NDArray[np.float64]) -> float:
    """Return the number of pairs in which the diverged cell has the higher value, ties as halves (Mann-Whitney's U)."""
    return float(np.nansum(ranks * positive) - np.sum(_least_rank_sums(positive)))
