"""Training curves: the outcome of every treatment by step, and by compute with what the initializer spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.comparing.metrics import outcome_key, training_key
from initbench.statistics.cells import Spread, spread
from initbench.statistics.cost import initialization_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric

COLUMNS = [
    *("workload", "treatment", "step", "compute", "seeds", "diverged"),
    *("outcome_median", "outcome_smallest", "outcome_largest", "metric"),
    *("train_median", "train_smallest", "train_largest"),
]


def training_curves(
    trials: pd.DataFrame, records: Sequence[TrialRecord], metrics: Mapping[str, Metric]
) -> pd.DataFrame:
    """Return one row for each point of each treatment's curve in each workload.

    - ``step``: training steps taken; ``compute``: those and what the initializer cost in training steps
      (`cost.initialization_steps`, the median over the seeds), missing where that is not known;
    - ``seeds``: trials with a result; ``diverged``: how many of them have diverged before this step;
    - ``outcome_median``: over the seeds, a trial that has diverged counting as +∞, or -∞ where higher is better;
    - ``outcome_smallest``, ``outcome_largest``: over the seeds, likewise;
    - ``metric``: the outcome's name;
    - ``train_median``, ``train_smallest``, ``train_largest``: likewise of the same quantity on the training split,
      which is a mean over the epoch so far (`training.loop.TrainingResult`); missing where the task does not follow it.

    Args:
        trials: as from `trials.comparable_trials`.
        records: as from `frame.read_records`, which marks points that are not `drawn`.
        metrics: of each workload, as from `trials.workload_metrics`.
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
    curves = [_curve(record, outcome_key(record), metric) for record in members]
    trains = [_curve(record, training_key(record), metric) for record in members]
    if not any(curves):
        # All that diverged before the first point would be missing from the figure: they have one where the last ended.
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
                **columns("outcome", spread(outcomes).in_direction(metric)),
                **columns("train", spread(trained).in_direction(metric)),
            }
        )
    return points


def _curve(record: TrialRecord, key: str, metric: Metric) -> dict[int, float | None]:
    """Return the oriented values of a record's drawn points by step, None for one that was not finite."""
    outcome = outcome_key(record)
    return {
        entry["step"]: None if entry[key] is None else metric.oriented(entry[key])
        for entry in record.history
        if entry.get("drawn", True) and outcome in entry and key in entry
    }


def _at(step: int, curves: Sequence[Mapping[int, float | None]], members: Sequence[TrialRecord]) -> list[float]:
    """Return the values at a step, +∞ of what has diverged.

    A trial that finished without this point (its history was kept otherwise) says nothing here.
    """
    return [
        math.inf if value is None else value
        for value, record in zip([curve.get(step) for curve in curves], members, strict=True)
        if value is not None or record.status == "diverged"
    ]


def columns(prefix: str, values: Spread) -> dict[str, float]:
    """Return a spread as columns: ``outcome_median``, ``outcome_smallest`` and ``outcome_largest``."""
    return {f"{prefix}_{name}": value for name, value in values._asdict().items()}
