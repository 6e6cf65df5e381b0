"""Two initializers compared where all else is equal: by workload and seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.reporting.statistics.cells import trial_outcomes
from initbench.reporting.statistics.intervals import Estimate, mean_estimate, share_estimate

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class PairedComparison(NamedTuple):
    """An initializer against a reference.

    Attributes:
        by_workload: one row per workload that has both: ``group``; ``difference``, ``low``, ``high``: as from
            `paired_estimate`; ``median``: of the differences, where both diverged 0, where one did ±∞;
            ``probability_of_improvement``; ``seeds``; ``diverged``: pairs with one or two diverged trials.
        difference: the mean over workloads of their mean differences; the interval is over workloads, of which these
            are taken as a sample. None of it where a trial diverged.
        probability_of_improvement: that a run of the initializer has a lower error than a run of the reference on the
            same workload, averaged over workloads; the interval is over workloads (`intervals.share_estimate`).
        comparisons: how many comparisons each kind of interval is to hold for at once.
    """

    by_workload: pd.DataFrame
    difference: Estimate
    probability_of_improvement: Estimate
    comparisons: int = 1

    def on(self, group: str) -> Estimate:
        """Return the difference on one workload, as from `paired_estimate`; n is 0 where it has not both."""
        for row in self.by_workload[self.by_workload["group"] == group].to_dict("records"):
            return Estimate(row["difference"], row["low"], row["high"], row["seeds"])
        return Estimate(math.nan, math.nan, math.nan, 0)


def compare_paired(trials: pd.DataFrame, initializer: str, reference: str, comparisons: int = 1) -> PairedComparison:
    """Return an initializer against a reference, on the workloads and seeds where both have a result.

    Two initializers at one seed see the same data in the same order, so their difference is free of that noise. Seeds
    are replicates within a workload: over workloads each counts once, however many seeds it has.

    Args:
        trials: as from `comparison.comparable_trials`.
        initializer: a label in them.
        reference: another.
        comparisons: how many are made: k - 1 where all of k are compared with one that was named beforehand, and
            k (k - 1) / 2 where that one was picked by the same errors, for then any pair might have come up. All
            intervals have the level 1 - 5 % / comparisons.
    """
    results = trial_outcomes(trials)
    both = results[results["initializer"].isin([initializer, reference])]
    wide = both.pivot(index=["group", "seed"], columns="initializer", values="outcome")  # noqa: PD010  # it refuses duplicates
    wide = wide.reindex(columns=[initializer, reference]).dropna()
    rows = []
    for group, own in wide.groupby(level="group", sort=False):
        first, second = own[initializer].to_numpy(), own[reference].to_numpy()
        mean = paired_estimate(first, second, comparisons)
        rows.append(
            {
                "group": group,
                "difference": mean.value,
                "low": mean.low,
                "high": mean.high,
                "median": float(np.median(paired_differences(first, second))),
                "probability_of_improvement": probability_of_improvement(first, second),
                "seeds": len(own),
                "diverged": int((np.isinf(first) | np.isinf(second)).sum()),
            }
        )
    columns = ["group", "difference", "low", "high", "median", "probability_of_improvement", "seeds", "diverged"]
    by_workload = pd.DataFrame(rows, columns=columns)
    return PairedComparison(
        by_workload,
        mean_estimate(by_workload["difference"].to_numpy(dtype=float), comparisons),
        share_estimate(by_workload["probability_of_improvement"].to_numpy(dtype=float), comparisons),
        comparisons,
    )


def paired_estimate(first: ArrayLike, second: ArrayLike, comparisons: int = 1) -> Estimate:
    """Return the mean over the seeds of one workload of the difference first - second, with Student's interval.

    No interval below 3 seeds, neither mean nor interval where a trial diverged; n counts the seeds.

    Args:
        first: shape (seeds,), test errors as fractions, +∞ for a diverged trial.
        second: likewise, at the same seeds.
        comparisons: how many such intervals are to hold at once, as for `intervals.mean_estimate`.

    Raises:
        ValueError: they have not the same number of seeds.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if x.shape != y.shape:
        raise ValueError(f"both must have the same seeds, got {len(x)} and {len(y)}")
    differences = paired_differences(x, y)
    # Two that diverged are a tie for the median, but no mean.
    return mean_estimate(np.where(np.isfinite(x) & np.isfinite(y), differences, math.nan), comparisons)


def paired_differences(errors: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors - reference, shape (n,); two diverged trials (+∞ and +∞) are a tie, 0."""
    both = np.isinf(errors) & np.isinf(reference)
    return np.subtract(errors, reference, out=np.zeros(len(errors)), where=~both)


def probability_of_improvement(errors: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return P(X < Y) + P(X = Y) / 2 over all pairs of a run X of `errors` and a run Y of `reference`.

    It is the Mann-Whitney statistic of the lower error as a fraction (Agarwal et al., arXiv 2108.13264, section 4.3).

    Args:
        errors: shape (n,), +∞ for a diverged run.
        reference: shape (m,), likewise.
    """
    x, y = errors[:, None], reference[None, :]
    return float(np.mean((x < y) + 0.5 * (x == y)))
