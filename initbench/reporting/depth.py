"""Depth curves: the outcome of every treatment as an architecture gets deeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.curves import columns
from initbench.statistics.cells import spread, trial_outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.comparing.labels import Labels
    from initbench.metric import Metric

DEPTH = "architecture.depth"
COLUMNS = [
    *("family", "treatment", "depth", "seeds", "diverged"),
    *("outcome_median", "outcome_smallest", "outcome_largest", "metric"),
]


def depth_curves(trials: pd.DataFrame, metrics: Mapping[str, Metric], labels: Labels) -> pd.DataFrame:
    """Return one row for each treatment at each depth, for the families of workloads that differ in depth alone.

    ``family`` is the workload's name without its depth; the outcomes are those of the cells (`cells.cells`), in the
    metric's own direction, a diverged trial counting as the worst. A family of one depth has no row.

    Args:
        trials: as from `trials.comparable_trials`.
        metrics: of each workload, as from `trials.workload_metrics`.
        labels: of the workloads.
    """
    if DEPTH not in trials:
        return pd.DataFrame(columns=COLUMNS)
    results = trial_outcomes(trials).dropna(subset=[DEPTH])
    families = {workload: labels.family(workload, DEPTH) for workload in results["workload"].unique()}
    results = results.assign(family=results["workload"].map(families))
    rows: list[dict[str, Any]] = []
    for family, members in results.groupby("family", sort=False):
        if members[DEPTH].nunique() < 2:
            continue
        for (treatment, depth), cell in members.groupby(["treatment", DEPTH], sort=True):
            metric = metrics[str(cell["workload"].iloc[0])]
            rows.append(
                {
                    "family": family,
                    "treatment": treatment,
                    "depth": depth,
                    "seeds": len(cell),
                    "diverged": int((cell["status"] == "diverged").sum()),
                    **columns("outcome", spread(cell["outcome"]).in_direction(metric)),
                    "metric": metric.name,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)
