"""Whether a probe agrees with itself: between seeds and between batches."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.intervals import Estimate, mean_estimate

if TYPE_CHECKING:
    from collections.abc import Sequence


def seed_agreement(trials: pd.DataFrame, probe: str) -> Estimate:
    """Return how similarly a probe orders the treatments at different seeds, the mean over workloads.

    Of a workload it is the mean of Spearman's ρ over all pairs of seeds. For m seeds without ties it equals (m W - 1) /
    (m - 1), where W is Kendall's coefficient of concordance (Kendall and Gibbons, Rank Correlation Methods, chapter 6).
    A probe cannot predict anything better than it agrees with itself.

    Args:
        trials: as from `trials.comparable_trials`.
        probe: a column, such as ``probe.gradient_quotient``.

    Returns:
        The mean with Student's interval over the workloads with 2 or more seeds of the probe for 3 or more treatments,
            those with the probe at all these seeds. A workload with a seed that has no order is left out.
    """
    agreements = []
    results = trials.loc[trials["status"] != "failed", ["workload", "treatment", "seed", probe]]
    for _, group in results.groupby("workload", sort=False):
        wide = group.pivot(index="seed", columns="treatment", values=probe)  # noqa: PD010  # it refuses duplicates
        values = wide.astype(float).dropna(axis="index", how="all").dropna(axis="columns")
        seeds, treatments = values.shape
        if seeds < 2 or treatments < 3 or (values.max(axis="columns") == values.min(axis="columns")).any():
            continue
        ranks = stats.rankdata(values.to_numpy(), axis=1)
        agreements.append(float(np.corrcoef(ranks)[np.triu_indices(seeds, 1)].mean()))
    return mean_estimate(agreements).clipped(-1, 1)


def batch_spread(per_batch: Sequence[Sequence[float]]) -> Estimate:
    """Return the relative spread of a probe between the batches of one trial: the median over trials of s / |x̄|.

    Args:
        per_batch: the values of each trial's batches; trials with fewer than 2 values, a value that is not finite, or
            mean 0 are left out.

    Returns:
        The median without an interval, because trials that share a treatment are not independent; n counts trials.
    """
    by_length: dict[int, list[Sequence[float]]] = defaultdict(list)
    for values in per_batch:
        if len(values) >= 2:
            by_length[len(values)].append(values)
    each = []
    for alike in by_length.values():
        x = np.array(alike, dtype=float)
        x = x[np.isfinite(x).all(axis=1)]
        x = x[x.mean(axis=1) != 0]
        each.append(np.std(x, axis=1, ddof=1) / np.abs(x.mean(axis=1)))
    ratios = np.concatenate(each) if each else np.empty(0)
    return Estimate(float(np.median(ratios)) if len(ratios) else math.nan, math.nan, math.nan, len(ratios))
