"""The outcome of every treatment as an architecture gets deeper."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import pandas as pd

from initbench.metric import Metric
from initbench.statistics.cells import spread, trial_outcomes
from initbench.statistics.curves import spread_columns

DEPTH = "architecture.depth"
COLUMNS = [
    *("family", "treatment", "depth", "seeds", "diverged"),
    *("outcome_median", "outcome_smallest", "outcome_largest", "metric"),
]
_NO_STEP = dict.fromkeys(("from_depth", "from_outcome", "to_depth", "to_outcome", "worsening"), math.nan)


def depth_curves(trials: pd.DataFrame, metrics: Mapping[str, Metric], families: Mapping[str, str]) -> pd.DataFrame:
    """Return one row for each treatment at each depth, in families of workloads that differ only in depth.

    Outcomes are as in the cells (`cells.cells`), in the metric's own direction; a diverged trial counts as the worst. A
    family with a single depth has no row.

    Args:
        trials: as from `trials.comparable_trials`.
        metrics: metric of each workload, as from `trials.workload_metrics`.
        families: workload → its name without its depth.
    """
    if DEPTH not in trials:
        return pd.DataFrame(columns=COLUMNS)
    results = trial_outcomes(trials)
    # An architecture's depth may be a word.
    is_number = results[DEPTH].map(lambda depth: isinstance(depth, Real)).astype(bool)
    results = results[is_number].dropna(subset=[DEPTH])
    rows: list[dict[str, Any]] = []
    for family, members in results.groupby(results["workload"].map(families), sort=False):
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
                    **spread_columns("outcome", spread(cell["outcome"]).in_direction(metric)),
                    "metric": metric.name,
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def reached_depths(
    depths: pd.DataFrame, trained: set[tuple[str, str, float]], metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """Return one row for each family and treatment: how deep it trains, and its steepest step.

    - ``deepest_trained``: the largest depth such that it trains there and at all smaller depths, missing if it does not
      train at the smallest; ``first_failure``: the next depth, missing if there is none;
    - ``from_depth``, ``from_outcome``, ``to_depth``, ``to_outcome``: the step from one depth to the next at which the
      median worsens most; ``worsening``: by how much, oriented, +∞ if it diverged at the second depth. No step begins
      at a diverged median, and none ends at an untrained one unless there is no other.

    Args:
        depths: as from `depth_curves`.
        trained: the family, treatment and depth of each cell that trained.
        metrics: by name.
    """
    rows = []
    for (family, treatment), curve in depths.groupby(["family", "treatment"], sort=False):
        points = curve.sort_values("depth").to_dict("records")
        trains = [(str(family), str(treatment), point["depth"]) in trained for point in points]
        first = trains.index(False) if False in trains else len(trains)
        metric = metrics[points[0]["metric"]]
        row = {"family": family, "treatment": treatment, "metric": metric.name}
        row["deepest_trained"] = float(points[first - 1]["depth"]) if first else math.nan
        row["first_failure"] = float(points[first]["depth"]) if first < len(points) else math.nan
        rows.append(row | _steepest(points[:first] if first > 1 else points, metric))
    return pd.DataFrame(rows)


def _steepest(points: Sequence[Mapping[Hashable, Any]], metric: Metric) -> dict[str, float]:
    steps = []
    for start, end in pairwise(points):
        before, after = (metric.oriented(point["outcome_median"]) for point in (start, end))
        if math.isfinite(before):
            steps.append((after - before, start, end))
    if not steps:
        return _NO_STEP
    worsening, start, end = max(steps, key=lambda step: step[0])
    return {
        "from_depth": float(start["depth"]),
        "from_outcome": float(start["outcome_median"]),
        "to_depth": float(end["depth"]),
        "to_outcome": float(end["outcome_median"]),
        "worsening": worsening,
    }
