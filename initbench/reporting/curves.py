"""Training curves: the test error of every initializer by step, and by compute with what the initializer spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.reporting.compute import initialization_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.ledger import TrialRecord

COLUMNS = [
    *("group", "initializer", "step", "compute", "seeds", "diverged"),
    *("test_error_median", "test_error_smallest", "test_error_largest"),
]


def training_curves(trials: pd.DataFrame, records: Sequence[TrialRecord]) -> pd.DataFrame:
    """Return one row for each point of each initializer's curve in each group.

    - ``step``: training steps taken; ``compute``: those and what the initializer cost in training steps
      (`compute.initialization_steps`, the median over the seeds), missing where that is not known;
    - ``seeds``: trials with a result; ``diverged``: how many of them have diverged before this step;
    - ``test_error_median``: over the seeds, a trial that has diverged counting as +∞;
    - ``test_error_smallest``, ``test_error_largest``: over the seeds; the latter is +∞ where one has diverged.

    Args:
        trials: as from `comparison.comparable_trials`.
        records: as from `frame.read_records`, which marks points that are not `drawn`.
    """
    by_id = {record.id: record for record in records}
    rows: list[dict[str, Any]] = []
    results = trials[trials["status"] != "failed"]
    for (group, initializer), cell in results.groupby(["group", "initializer"], sort=False):
        members = [by_id[i] for i in cell["trial_id"]]
        spent = float(np.median([initialization_steps(record) for record in members]))
        rows += [
            {"group": group, "initializer": initializer, "compute": point["step"] + spent} | point
            for point in _points(members)
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _points(members: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    curves = [
        {entry["step"]: entry["test_error"] for entry in record.history if entry.get("drawn", True)}
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
        errors = [
            math.inf if curve.get(step) is None else curve[step]
            for curve, record in zip(curves, members, strict=True)
            if curve.get(step) is not None or record.status == "diverged"
        ]
        points.append(
            {
                "step": step,
                "seeds": len(errors),
                "diverged": sum(map(math.isinf, errors)),
                "test_error_median": float(np.median(errors)),
                "test_error_smallest": min(errors),
                "test_error_largest": max(errors),
            }
        )
    return points
