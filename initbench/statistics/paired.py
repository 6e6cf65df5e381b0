"""Compare two treatments with everything else equal: by workload and seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.statistics.cells import trial_outcomes
from initbench.statistics.intervals import Estimate, mean_estimate, share_estimate
from initbench.statistics.power import number_needed
from initbench.statistics.seed_variance import SeedVariance, difference_estimate

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import ArrayLike, NDArray

    from initbench.metric import Metric


class PairedComparison(NamedTuple):
    """A treatment compared with a reference.

    Attributes:
        by_workload: one row per workload that has both: ``workload``; ``difference``, ``low``, ``high``: as from
            `paired_estimate`; ``median``: of the differences, 0 if both diverged, ±∞ if one did, NaN between −∞ and ∞;
            ``probability_of_improvement``; ``seeds``; ``diverged``: pairs with one or two diverged trials.
        difference: the mean over workloads of their mean differences; the interval takes the workloads as a sample.
            Missing if a trial diverged.
        probability_of_improvement: the probability that a run of the treatment has a lower error than a run of the
            reference on the same workload, averaged over workloads; the interval is over workloads
            (`intervals.share_estimate`).
        comparisons: number of comparisons for which each kind of interval holds simultaneously.
    """

    by_workload: pd.DataFrame
    difference: Estimate
    probability_of_improvement: Estimate
    comparisons: int = 1

    @property
    def workloads(self) -> int:
        """Number of workloads that have both."""
        return len(self.by_workload)

    @property
    def judged(self) -> Estimate:
        """The difference used for the verdict: over workloads, or over the seeds if there is only one workload."""
        return self.on(str(self.by_workload["workload"].iloc[0])) if self.workloads == 1 else self.difference

    @property
    def is_over_seeds(self) -> bool:
        """Whether n of the judged difference counts the seeds of one workload."""
        return self.workloads == 1

    @property
    def has_mean(self) -> bool:
        """Whether there is a mean difference; there is none if a trial diverged."""
        return not math.isnan(self.difference.value)

    @property
    def side(self) -> int:
        """-1 if the treatment is significantly better, 1 if it is significantly worse, 0 if neither.

        It is decided by the difference or, if there is none because a trial diverged, by the probability of
        improvement.
        """
        return self.judged.side() if self.has_mean else -self.probability_of_improvement.side(0.5)

    @property
    def is_told(self) -> bool:
        """Whether one of the two is significantly better."""
        return self.side != 0

    @property
    def needed(self) -> int | None:
        """Number of workloads to find a difference of the observed size at 80 % power.

        None if 10,000 are not enough or there is no interval, and on a single workload.
        """
        return None if self.is_over_seeds else number_needed(self.judged, self.comparisons)

    def on(self, workload: str) -> Estimate:
        """Return the difference on one workload, as from `paired_estimate`; n is 0 if it does not have both."""
        for i in np.flatnonzero(self.by_workload["workload"] == workload):
            value, low, high = (float(self.by_workload[column].iloc[i]) for column in ("difference", "low", "high"))
            return Estimate(value, low, high, int(self.by_workload["seeds"].iloc[i]))
        return Estimate(math.nan, math.nan, math.nan, 0)


def compare_paired(trials: pd.DataFrame, treatment: str, reference: str, comparisons: int = 1) -> PairedComparison:
    """Compare a treatment with a reference, on the workloads and seeds at which both have a result.

    Two treatments at one seed see the same data in the same order, so their difference is free of that noise. Seeds are
    replicates within a workload: each workload counts once, however many seeds it has.

    Args:
        trials: as from `trials.comparable_trials`.
        treatment: a label in them.
        reference: another label.
        comparisons: number of comparisons: k - 1 if all k are compared with one that was named beforehand, and
            k (k - 1) / 2 if that one was picked by the same errors, because then any pair might have been chosen. All
            intervals have the level 1 - 5 % / comparisons.
    """
    return compare_columns(by_seed(trials, [treatment, reference]), treatment, reference, comparisons)


def by_seed(trials: pd.DataFrame, treatments: Collection[str]) -> pd.DataFrame:
    """Return the oriented outcomes of treatments, workloads and seeds × treatments, NaN without a result."""
    outcomes = trials.loc[trials["treatment"].isin(list(treatments)), ["workload", "seed", "treatment", "oriented"]]
    outcomes = trial_outcomes(outcomes)
    return outcomes.pivot(index=["workload", "seed"], columns="treatment", values="outcome")  # noqa: PD010  # it refuses duplicates


def compare_columns(
    wide: pd.DataFrame,
    treatment: str,
    reference: str,
    comparisons: int = 1,
    variances: Mapping[str, SeedVariance] | None = None,
) -> PairedComparison:
    """Like `compare_paired`; faster for many pairs.

    Args:
        wide: as from `by_seed`.
        treatment: a column.
        reference: another column.
        comparisons: as for `compare_paired`.
        variances: by workload, as from `SuiteVariances.on`; they widen the intervals over seeds. A workload that is
            missing has no interval.
    """
    nothing = np.full(len(wide), math.nan)
    both = [wide[name].to_numpy() if name in wide else nothing for name in (treatment, reference)]
    known = ~np.isnan(both[0]) & ~np.isnan(both[1])
    workloads = wide.index.get_level_values("workload").to_numpy()[known]
    rows = []
    for workload in dict.fromkeys(workloads):
        first, second = (values[known][workloads == workload] for values in both)
        mean = paired_estimate(first, second, comparisons, (variances or {}).get(workload))
        if variances is not None and workload not in variances:
            mean = mean._replace(low=math.nan, high=math.nan)
        rows.append(
            {
                "workload": workload,
                "difference": mean.value,
                "low": mean.low,
                "high": mean.high,
                "median": _median(paired_differences(first, second)),
                "probability_of_improvement": probability_of_improvement(first, second),
                "seeds": len(first),
                "diverged": int((np.isinf(first) | np.isinf(second)).sum()),
            }
        )
    columns = ["workload", "difference", "low", "high", "median", "probability_of_improvement", "seeds", "diverged"]
    by_workload = pd.DataFrame(rows, columns=columns)
    return PairedComparison(
        by_workload,
        mean_estimate(by_workload["difference"].to_numpy(dtype=float), comparisons),
        share_estimate(by_workload["probability_of_improvement"].to_numpy(dtype=float), comparisons),
        comparisons,
    )


def _median(differences: NDArray[np.float64]) -> float:
    """Return the median; NaN if the two middle values are −∞ and ∞."""
    with np.errstate(invalid="ignore"):
        return float(np.median(differences))


def in_direction(by_workload: pd.DataFrame, metric: Metric) -> pd.DataFrame:
    """Return a `PairedComparison`'s rows with differences in the metric's own direction."""
    if metric.better == "lower":
        return by_workload
    # Subtracted from 0, so that a tie is 0 and not -0.
    ends = {"low": 0.0 - by_workload["high"], "high": 0.0 - by_workload["low"]}
    return by_workload.assign(difference=0.0 - by_workload["difference"], median=0.0 - by_workload["median"], **ends)


def paired_estimate(
    first: ArrayLike, second: ArrayLike, comparisons: int = 1, variance: SeedVariance | None = None
) -> Estimate:
    """Return the mean over the seeds of one workload of the difference first - second, with its interval.

    The interval is that of `seed_variance.difference_estimate`. No interval below 3 seeds, neither mean nor interval if
    a trial diverged; n counts the seeds.
    """
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if x.shape != y.shape:
        raise ValueError(f"both must have the same seeds, got {len(x)} and {len(y)}")
    differences = paired_differences(x, y)
    # Two diverged trials are a tie for the median, but have no mean.
    known = np.where(np.isfinite(x) & np.isfinite(y), differences, math.nan)
    return difference_estimate(known, variance, comparisons)


def paired_differences(errors: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors - reference, shape (n,); two diverged trials (+∞ and +∞) are a tie, 0."""
    both = np.isinf(errors) & np.isinf(reference)
    return np.subtract(errors, reference, out=np.zeros(len(errors)), where=~both)


def probability_of_improvement(errors: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return P(X < Y) + P(X = Y) / 2 over all pairs of a run X of `errors` and a run Y of `reference`.

    It is the Mann-Whitney statistic of the lower error as a fraction (Agarwal et al., arXiv 2108.13264, section 4.3).
    """
    x, y = errors[:, None], reference[None, :]
    return float(np.mean((x < y) + 0.5 * (x == y)))
