"""Training curves: the outcome of every treatment by step, and by compute including the initializer's cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.metrics import outcome_key, training_key
from initbench.metric import Metric
from initbench.statistics.cells import Spread, spread
from initbench.statistics.cost import initialization_steps

if TYPE_CHECKING:
    from initbench.ledger import TrialRecord

COLUMNS = [
    *("workload", "treatment", "step", "compute", "seeds", "diverged"),
    *("outcome_median", "outcome_smallest", "outcome_largest", "metric"),
    *("train_median", "train_smallest", "train_largest"),
]


def training_curves(
    trials: pd.DataFrame, records: Sequence[TrialRecord], metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """Return one row for each point of each treatment's curve in each workload.

    - ``step``: training steps taken; ``compute``: these plus the cost of the initializer in training steps
      (`cost.initialization_steps`, the median over the seeds), missing if unknown;
    - ``seeds``: trials with a result; ``diverged``: how many of them diverged before this step;
    - ``outcome_median``, ``outcome_smallest``, ``outcome_largest``: over the seeds; a trial that diverged counts as +∞,
      or as -∞ if higher is better;
    - ``metric``: the outcome's name;
    - ``train_median``, ``train_smallest``, ``train_largest``: the same quantity on the training split, which is a mean
      over the epoch so far (`training.loop.TrainingResult`); missing if the task does not record it.

    Args:
        trials: as from `trials.comparable_trials`.
        records: as from `read_records`, which marks the points that are not `drawn`.
        metrics: metric of each workload, as from `trials.workload_metrics`.
    """
    by_id = {record.id: record for record in records}
    rows: list[dict[str, Any]] = []
    results = trials[trials["status"] != "failed"]
    for (workload, treatment), ids in results.groupby(["workload", "treatment"], sort=False)["trial_id"]:
        members = [by_id[i] for i in ids]
        spent = float(np.median([initialization_steps(record) for record in members]))
        rows += [
            {"workload": workload, "treatment": treatment, "compute": point["step"] + spent} | point
            for point in _points(members, metrics[str(workload)])
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def curve_ends(curves: pd.DataFrame, cells: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the last point of each curve, in natural order.

    Its columns are the curves' columns without ``compute``; the cell's ``state``; and ``gap``, the amount by which the
    median is worse on the outcome's split than on the training split, missing if either has no number.

    Args:
        curves: as from `training_curves`.
        cells: as from `cells.cells`.
        metrics: by name.
    """
    keys = ["workload", "treatment"]
    ends = curves.groupby(keys, sort=False).tail(1).merge(cells[[*keys, "state"]], on=keys, how="left")
    gap = (ends["outcome_median"] - ends["train_median"]) * [metrics[name].oriented(1.0) for name in ends["metric"]]
    ends = ends.assign(gap=gap.where(gap.abs() < math.inf))
    order = [*keys, "state", *(name for name in curves.columns if name not in {*keys, "compute"}), "gap"]
    labels = [tuple(map(natural, cell)) for cell in zip(ends["workload"], ends["treatment"], strict=True)]
    return ends[order].iloc[sorted(range(len(ends)), key=labels.__getitem__)].reset_index(drop=True)


def widest_gaps(ends: pd.DataFrame) -> pd.DataFrame:
    """Return for each metric the row of `curve_ends` with the widest gap among the cells that trained."""
    known = ends[(ends["state"] == "trained") & ends["gap"].notna()]
    return known.loc[known.groupby("metric", sort=False)["gap"].idxmax()]


def best_unfitted(ends: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return for each metric the row of `curve_ends` that is best on training data among the untrained cells.

    Args:
        ends: as from `curve_ends`.
        metrics: by name.
    """
    known = ends[(ends["state"] == "untrained") & ends["train_median"].notna()]
    oriented = known["train_median"] * [metrics[name].oriented(1.0) for name in known["metric"]]
    return known.loc[oriented.groupby(known["metric"], sort=False).idxmin()]


def spread_columns(prefix: str, values: Spread) -> dict[str, float]:
    """Return a spread as columns: ``outcome_median``, ``outcome_smallest`` and ``outcome_largest``."""
    return {f"{prefix}_{name}": value for name, value in values._asdict().items()}


def _points(members: Sequence[TrialRecord], metric: Metric) -> list[dict[str, Any]]:
    curves = [_curve(record, outcome_key(record), metric) for record in members]
    trains = [_curve(record, training_key(record), metric) for record in members]
    if not any(curves):
        # A cell whose trials all diverged before the first point gets one point, where the last trial ended.
        ends = [record.metrics.get("diverged_at_step") for record in members if record.status == "diverged"]
        known = [end for end in ends if end is not None]
        curves = [{max(known): math.inf}] * len(members) if known else curves
    points = []
    for step in sorted({step for curve in curves for step in curve}):
        outcomes = _at(step, curves, members)
        trained = _at(step, trains, members) if any(step in curve for curve in trains) else []
        points.append(
            {
                "step": step,
                "seeds": len(outcomes),
                "diverged": sum(map(math.isinf, outcomes)),
                "metric": metric.name,
                **spread_columns("outcome", spread(outcomes).in_direction(metric)),
                **spread_columns("train", spread(trained).in_direction(metric)),
            }
        )
    return points


def _curve(record: TrialRecord, key: str, metric: Metric) -> dict[int, float | None]:
    """Return the oriented values of a record's drawn points by step, None if a value was not finite."""
    outcome = outcome_key(record)
    return {
        entry["step"]: None if entry[key] is None else metric.oriented(entry[key])
        for entry in record.history
        if entry.get("drawn", True) and outcome in entry and key in entry
    }


def _at(step: int, curves: Sequence[Mapping[int, float | None]], members: Sequence[TrialRecord]) -> list[float]:
    """Return the values at a step: +∞ for a trial that diverged, nothing for one that finished without this point."""
    return [
        math.inf if value is None else value
        for value, record in zip([curve.get(step) for curve in curves], members, strict=True)
        if value is not None or record.status == "diverged"
    ]
