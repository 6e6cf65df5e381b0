"""The table of all trials as plain data; the page's script draws, sorts and filters it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from initbench.reporting.frame import GQ

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord

# column → heading and how its values are written, of those that every report has.
_COLUMNS = {
    "suite": ("Suite", "text"),
    "group": ("Architecture and conditions", "text"),
    "initializer": ("Initializer", "text"),
    "seed": ("Seed", "count"),
    "status": ("Status", "text"),
    "test_error": ("Test error", "percent"),
    "train_error": ("Training error", "percent"),
    "first_epoch_accuracy": ("First-epoch accuracy", "percent"),
    GQ: ("GQ", "number"),
    f"{GQ}.saturated": ("GQ saturated", "text"),
    "epsilon_floor": ("GQ’s ε floor", "number"),
}
_LAST = {
    "initialization_seconds": ("Initialization", "seconds"),
    "total_seconds": ("Total", "seconds"),
    "trial_id": ("Trial", "text"),
}
_FILTERS = ("suite", "group", "initializer", "status")
_ID_LENGTH = 8


def trial_table(trials: pd.DataFrame, records: Sequence[TrialRecord]) -> dict[str, Any]:
    """Return ``columns`` (heading, kind, and whether the page offers a choice of its values) and ``rows``.

    Columns in which no trial has a value are left out, and so is the suite's where there is one suite.

    Args:
        trials: as from `comparison.comparable_trials`.
        records: as from `frame.read_records`.
    """
    floors = {record.id: _floor(record) for record in records}
    frame = trials.assign(epsilon_floor=[floors[i] for i in trials["trial_id"]])
    frame["trial_id"] = frame["trial_id"].str[:_ID_LENGTH]
    if f"{GQ}.saturated" in frame:
        frame[f"{GQ}.saturated"] = frame[f"{GQ}.saturated"].astype(object).map({True: "yes", False: "no"})
    probes = {
        column: (column.removeprefix("probe.").replace("_", " ").capitalize(), "number")
        for column in frame.columns
        if column.startswith("probe.") and column != GQ and not column.endswith(".saturated")
    }
    chosen = {
        column: words
        for column, words in (_COLUMNS | probes | _LAST).items()
        if column in frame and frame[column].notna().any()
    }
    if len(set(frame["suite"])) == 1:
        del chosen["suite"]
    columns = [
        {"heading": heading, "kind": kind, "filter": column in _FILTERS and len(set(frame[column])) > 1}
        for column, (heading, kind) in chosen.items()
    ]
    rows = [[_plain(value) for value in row] for row in frame[list(chosen)].itertuples(index=False)]
    return {"columns": columns, "rows": rows}


def as_json(table: dict[str, Any]) -> Markup:
    """Return the data as JSON for a ``<script>`` element: no text in it can end the element or begin another."""
    text = json.dumps(table, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704  # escaped


def _floor(record: TrialRecord) -> float:
    """Return what GQ would be without any curvature, where it was measured."""
    for probe in record.probes:
        if probe["name"] == "gradient_quotient":
            value = (probe.get("conditions") or {}).get("epsilon_floor")
            return math.nan if value is None else float(value)
    return math.nan


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: six digits are enough to look at, results.csv has them all."""
    if isinstance(value, str) or value is None:
        return value
    if value != value:  # noqa: PLR0124  # NaN alone
        return None
    if isinstance(value, float) or hasattr(value, "dtype"):
        number = float(f"{float(value):.6g}")
        return None if not math.isfinite(number) else int(number) if number.is_integer() else number
    return value
