"""The table of all trials as plain data; the page's script draws, sorts and filters it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.metrics import metrics_by_task
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.reporting.frame import GQ
from initbench.reporting.results import Results
from initbench.reporting.trials import early_columns

# Column → heading and kind, before the metrics and after them.
_FIRST: dict[str, tuple[str, Any]] = {
    "suite": ("Suite", "text"),
    "workload": ("Workload", "text"),
    "treatment": ("Treatment", "text"),
    "seed": ("Seed", "count"),
    "status": ("Status", "text"),
}
_GQ: dict[str, tuple[str, Any]] = {
    GQ: ("GQ", "number"),
    f"{GQ}.saturated": ("GQ saturated", "text"),
    "epsilon_floor": ("GQ’s ε floor", "number"),
}
_LAST: dict[str, tuple[str, Any]] = {
    "initialization_seconds": ("Initialization", "seconds"),
    "total_seconds": ("Total", "seconds"),
    "trial_id": ("Trial", "text"),
}
_FILTERS = ("suite", "workload", "treatment", "status")
_ID_LENGTH = 8


def trial_table(results: Results) -> dict[str, Any]:
    """Return ``columns`` (``heading``, ``kind``, and ``filter`` if the page offers a choice of values) and ``rows``.

    The kind of a metric's column is its scale, digits and unit. Empty columns are left out, and so is the suite if
    there is only one.
    """
    trials, records, metrics, terms = results.trials, results.records, results.metrics, results.terms
    names = results.names
    floors = {record.id: _floor(record) for record in records}
    frame = trials.assign(epsilon_floor=[floors[i] for i in trials["trial_id"]])
    outcomes = _outcomes(frame, records, metrics)
    frame["trial_id"] = frame["trial_id"].str[:_ID_LENGTH]
    frame["workload"] = [names.workloads[label].text for label in frame["workload"]]
    frame["treatment"] = [names.treatments[label].text for label in frame["treatment"]]
    if f"{GQ}.saturated" in frame:
        frame[f"{GQ}.saturated"] = frame[f"{GQ}.saturated"].astype(object).map({True: "yes", False: "no"})
    probes = {
        column: (column.removeprefix("probe.").replace("_", " ").capitalize(), "number")
        for column in frame.columns
        if column.startswith("probe.") and column != GQ and not column.endswith(".saturated")
    }
    head = {"treatment": (capitalized(terms.treatment), "text")}
    chosen = {
        column: words
        for column, words in (_FIRST | head | outcomes | _GQ | probes | _LAST).items()
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


def _outcomes(
    frame: pd.DataFrame, records: Sequence[TrialRecord], metrics: Mapping[str, Metric]
) -> dict[str, tuple[str, Any]]:
    """Return the columns of each outcome, of the same metric in training, and of metrics after the first epoch.

    If tasks have different metrics with the same name, the frame gets a column for each.
    """
    tasks = {record.id: record.task.get("name") for record in records}
    of = frame["trial_id"].map(tasks)
    columns: dict[str, tuple[str, Any]] = {}

    def add(column: str, key: str, heading: str, metric: Metric, rows: pd.Series[bool]) -> None:
        if column != key and key in frame:
            frame[column] = frame[key].where(rows)
        known = {words for words, _ in columns.values()}
        task = f" ({', '.join(sorted(set(of[rows].dropna())))})" if heading in known else ""
        columns[column] = (heading + task, _kind(metric))

    early = early_columns(frame)
    for name, metric in metrics.items():
        key, _, task = name.partition(" (")  # the task, if two tasks have an outcome with this name
        suffix = f" ({task}" if task else ""
        rows = frame["metric"] == name
        trained = f"train_{key.removeprefix(f'{metric.split}_')}"
        add(name, key, capitalized(metric.title), metric, rows)
        add(trained + suffix, trained, f"Training {metric.quantity}", metric, rows)
    for key in early:
        meanings = metrics_by_task(records, key) or {Metric(key, "higher"): set()}
        for metric, names in meanings.items():
            column = key if len(meanings) == 1 else f"{key} ({', '.join(sorted(names))})"
            add(column, key, capitalized(metric.title), metric, of.isin(names))
    return columns


def _kind(metric: Metric) -> dict[str, Any]:
    digits = re.fullmatch(r"\{:\.(\d+)f\}", metric.show)
    return {"scale": metric.scale, "unit": metric.beside_title.unit, "digits": int(digits[1]) if digits else None}


def _floor(record: TrialRecord) -> float:
    """Return the gradient quotient's ε floor; NaN if it was not measured."""
    for probe in record.probes:
        if probe["name"] == "gradient_quotient":
            value = (probe.get("conditions") or {}).get("epsilon_floor")
            return math.nan if value is None else float(value)
    return math.nan


def _plain(value: Any) -> Any:
    """Return a value for JSON, fractions with five digits; results.csv has all digits."""
    if isinstance(value, str) or value is None:
        return value
    if value != value:  # noqa: PLR0124  # NaN alone
        return None
    if isinstance(value, float) or hasattr(value, "dtype"):
        number = float(value)
        if not math.isfinite(number):
            return None
        return int(number) if number.is_integer() else float(f"{number:.5g}")
    return value
