"""Training curves: the outcome of every treatment by step, and by compute with what the initializer spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.reporting.compute import initialization_steps
from initbench.reporting.metrics import outcome_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric

COLUMNS = [
    *("workload", "treatment", "step", "compute", "seeds", "diverged"),
    *("outcome_median", "outcome_smallest", "outcome_largest", "metric"),
]


def training_curves(
    trials: pd.DataFrame, records: Sequence[TrialRecord], metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """Return one row for each point of each treatment's curve in each workload.

    - ``step``: training steps taken; ``compute``: those and what the initializer cost in training steps
      (`compute.initialization_steps`, the median over the seeds), missing where that is not known;
    - ``seeds``: trials with a result; ``diverged``: how many of them have diverged before this step;
    - ``outcome_median``: over the seeds, a trial that has diverged counting as +∞, or -∞ where higher is better;
    - ``outcome_smallest``, ``outcome_largest``: over the seeds, likewise;
    - ``metric``: the outcome's name.

    Args:
        trials: as from `comparison.comparable_trials`.
        records: as from `frame.read_records`, which marks points that are not `drawn`.
        metrics: of each workload, as from `comparison.workload_metrics`.
    """
    by_id = {record.id: record for record in records}
    rows: list[dict[str, Any]] = []
    results = trials[trials["status"] != "failed"]
    for (workload, treatment), cell in results.groupby(["workload", "treatment"], sort=False):
        members = [by_id[i] for i in cell["trial_id"]]
        spent = float(np.median([initialization_steps(record) for record in members]))
        rows += [
            {"workload": workload, "treatment": treatment, "compute": point["step"] + spent} | point
            for point in _points(members, metrics[str(workload)])
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _points(members: Sequence[TrialRecord], metric: Metric) -> list[dict[str, Any]]:
    curves = [
        {
            entry["step"]: _oriented(entry[outcome_key(record)], metric)
            for entry in record.history
            if entry.get("drawn", True) and outcome_key(record) in entry
        }
        for record in members
    ]
    if not any(curves):
        # All that diverged before the first point would be missing from the figure: they have one where the last ended.
        ends = [record.metrics.get("diverged_at_step") for record in members if record.status == "diverged"]
        known = [end for end in ends if end is not None]
        curves = [{max(known): math.inf}] * len(members) if known else curves
    points = []
    for step in sorted({step for curve in curves for step in curve}):
        # A trial that finished without this point (its history was kept otherwise) says nothing here.
        outcomes = [
            math.inf if value is None else value
            for value, record in zip([curve.get(step) for curve in curves], members, strict=True)
            if value is not None or record.status == "diverged"
        ]
        points.append(
            {
                "step": step,
                "seeds": len(outcomes),
                "diverged": sum(map(math.isinf, outcomes)),
                **outcome_range(outcomes, metric),
            }
        )
    return points


def outcome_range(outcomes: Sequence[float], metric: Metric) -> dict[str, Any]:
    """Return the median, the smallest and the largest of oriented outcomes, in the metric's own direction.

    Args:
        outcomes: one or more, +∞ for a diverged trial.
        metric: of them.
    """
    ends = sorted([metric.oriented(min(outcomes)), metric.oriented(max(outcomes))])
    median = metric.oriented(float(np.median(outcomes)))
    return {
        "outcome_median": median,
        "outcome_smallest": ends[0],
        "outcome_largest": ends[1],
        "metric": metric.name,
    }


def _oriented(value: float | None, metric: Metric) -> float | None:
    return None if value is None else metric.oriented(value)
