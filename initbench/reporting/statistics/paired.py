"""Two initializers compared where all else is equal: by workload and seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.reporting.statistics.cells import trial_outcomes
from initbench.reporting.statistics.intervals import Estimate, mean_estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PairedComparison(NamedTuple):
    """An initializer against a reference.

    Attributes:
        by_workload: one row per workload that has both: ``group``; ``difference``, ``low``, ``high``: the mean over
            seeds of the initializer's test error less the reference's, as a fraction, with Student's interval (none
            below 3 seeds, neither mean nor interval where a trial diverged); ``median``: of the differences, where
            both diverged 0, where one did ±∞; ``probability_of_improvement``; ``seeds``; ``diverged``: pairs with one
            or two diverged trials.
        difference: the mean over workloads of their mean differences; the interval is over workloads, of which these
            are taken as a sample. None of it where a trial diverged.
        probability_of_improvement: that a run of the initializer has a lower error than a run of the reference on the
            same workload, averaged over workloads; the interval is over workloads.
    """

    by_workload: pd.DataFrame
    difference: Estimate
    probability_of_improvement: Estimate


def compare_paired(trials: pd.DataFrame, initializer: str, reference: str) -> PairedComparison:
    """Return an initializer against a reference, on the workloads and seeds where both have a result.

    Two initializers at one seed see the same data in the same order, so their difference is free of that noise. Seeds
    are replicates within a workload: over workloads each counts once, however many seeds it has.

    Args:
        trials: as from `comparison.comparable_trials`.
        initializer: a label in them.
        reference: another.
    """
    results = trial_outcomes(trials)
    both = results[results["initializer"].isin([initializer, reference])]
    wide = both.pivot(index=["group", "seed"], columns="initializer", values="outcome")  # noqa: PD010  # it refuses duplicates
    wide = wide.reindex(columns=[initializer, reference]).dropna()
    rows = []
    for group, own in wide.groupby(level="group", sort=False):
        first, second = own[initializer].to_numpy(), own[reference].to_numpy()
        differences = paired_differences(first, second)
        mean = mean_estimate(differences if np.isfinite([first, second]).all() else [math.nan])
        rows.append(
            {
                "group": group,
                "difference": mean.value,
                "low": mean.low,
                "high": mean.high,
                "median": float(np.median(differences)),
                "probability_of_improvement": probability_of_improvement(first, second),
                "seeds": len(own),
                "diverged": int((np.isinf(first) | np.isinf(second)).sum()),
            }
        )
    columns = ["group", "difference", "low", "high", "median", "probability_of_improvement", "seeds", "diverged"]
    by_workload = pd.DataFrame(rows, columns=columns)
    return PairedComparison(
        by_workload,
        mean_estimate(by_workload["difference"].to_numpy(dtype=float)),
        mean_estimate(by_workload["probability_of_improvement"].to_numpy(dtype=float)).clipped(0, 1),
    )


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
