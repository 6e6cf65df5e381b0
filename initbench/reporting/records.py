"""Trial records in memory: only the parts that a report needs, and equal parts of many records as one object."""

from __future__ import annotations

import gc
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any

from initbench.comparing.metrics import has_outcome, mean_train_loss, outcome_key, outcome_sign, training_key
from initbench.errors import InitbenchError
from initbench.ledger import Ledger, TrialRecord
from initbench.reporting.sharing import Shared

CURVE_POINTS = 60
OF_ONE_TRIAL = {"seed", "probes"}
"""The parts of a spec, and of an identity, that do not belong to the trial's cell."""
_OF_INITIALIZATION = ("cost", "tuning", "factors")


def read_records(path: str | Path, skipped: list[str] | None = None) -> list[TrialRecord]:
    """Return the slim trial records in a suite's folder; a line about each file that is not one goes to `skipped`.

    Raises:
        InitbenchError: the folder has no trial records; or a file is not a record and `skipped` is not given.
    """
    ledger, shared = Ledger(path), Shared()
    was_enabled = gc.isenabled()
    gc.disable()  # records have no cycles, and searching 10,000 of them for some takes seconds
    try:
        records = [slim(record, shared) for record in ledger.records(skipped)]
    finally:
        if was_enabled:
            gc.enable()
    if not records:
        unreadable = f"; {len(skipped)} cannot be read, such as {skipped[0]}" if skipped else ""
        raise InitbenchError(
            f"{path}: no trial records in {ledger.trials}{unreadable or '; give the folder of a suite that has run'}"
        )
    return records


def slim(record: TrialRecord, shared: Shared | None = None) -> TrialRecord:
    """Return a record with what a report needs; a slim record is returned as it is.

    - ``history``: the outcome at some steps, with the same quantity on the training split if there is one. At most
      `CURVE_POINTS` entries are ``drawn``. Their epochs (steps, if the recipe counts steps) do not depend on the
      values, so that all trials of a cell have the same ones, even if one diverged early. All entries with a better
      outcome than every earlier one are kept, too, because one of them is the first to reach any given target.
    - ``initialization``: see `slim_initialization`.
    - ``identity``: that of the cell (`suite.spec.cell_id`).

    Parts that are equal to parts of other records become the same object.
    """
    shared = Shared() if shared is None else shared
    key, also = sys.intern(outcome_key(record)), sys.intern(training_key(record))
    entries = [entry for entry in record.history if key in entry] if has_outcome(record) else []
    names = ["step", "epoch", key, *([also] if also else [])]
    recipe = record.spec["recipe"]
    unit, length = ("step", recipe["steps"]) if recipe.get("steps") else ("epoch", recipe["epochs"])
    sign = outcome_sign(record) if entries else 1.0
    curve: list[dict[str, Any]] = []
    last, lowest = 0, math.inf
    for entry in entries:
        point = int(entry[unit] * CURVE_POINTS / length)
        drawn, outcome = point > last, math.inf if entry[key] is None else sign * entry[key]
        if drawn or outcome < lowest:
            curve.append({name: entry[name] for name in names if name in entry} | {"drawn": drawn})
        last = max(last, point)
        lowest = min(lowest, outcome)
    slimmed = copy(record)  # without the checks of a new record
    vars(slimmed).update(
        history=curve,
        initialization={
            name: shared.of(part) if name == "cost" else part
            for name, part in slim_initialization(record.initialization, CURVE_POINTS).items()
        },
        spec=shared.within(record.spec),
        identity=shared.of({key: part for key, part in record.identity.items() if key not in OF_ONE_TRIAL}),
        task=shared.of(record.task),
        environment=shared.of(record.environment),
        metrics=record.metrics | mean_train_loss(record),
    )
    return slimmed


def slim_initialization(initialization: Mapping[str, Any], points: int) -> dict[str, Any]:
    """Return what a report needs of an initialization; a slim one is returned as it is.

    - ``cost``: its passes, unchanged;
    - ``tuning``: the tuner's history at up to `points` steps as quantity → values, and ``step`` → the steps;
    - ``factors``: parameter → the product of the factors that scaled it.
    """
    kept = {key: initialization[key] for key in _OF_INITIALIZATION if initialization.get(key)}
    if history := initialization.get("history"):
        kept["tuning"] = _by_quantity(history, thinned(len(history), points))
    if factors := _factors(initialization.get("tensors", {})):
        kept["factors"] = factors
    return kept


def thinned(length: int, points: int) -> list[int]:
    """Return at most `points` indices below a length, including the first and the last.

    Every k-th index is kept; k is a power of two, so that histories of different lengths have indices in common.
    """
    stride = 1
    while length > 1 and (length - 2) // stride + 2 > points:
        stride *= 2
    return sorted({*range(0, length, stride), length - 1}) if length else []


def _by_quantity(history: Sequence[Mapping[str, Any]], kept: Sequence[int]) -> dict[str, array[float]]:
    """Return the numeric columns of a history."""
    entries = [history[index] for index in kept]
    names = dict.fromkeys(chain.from_iterable(entries))
    # A plug-in's tuner need not count its steps.
    columns = {"step": array("d", [entry.get("step", index) for entry, index in zip(entries, kept, strict=True)])}
    for name in names:
        # A value that is not finite has its reason in a field of its own (`json_values`).
        if name == "step" or (name.endswith("_reason") and name.removesuffix("_reason") in names):
            continue
        values = [entry.get(name) for entry in entries]
        if None in values and all(value is None or isinstance(value, int | float) for value in values):
            values = [_number(value, entry, name) for value, entry in zip(values, entries, strict=True)]
        with suppress(TypeError):
            columns[sys.intern(name)] = array("d", values)
    return columns


def _number(value: float | None, entry: Mapping[str, Any], name: str) -> float:
    """Return a value; ±∞ if it is null because it was not finite (NaN gives +∞), and NaN if it is missing."""
    if value is not None:
        return float(value)
    reason = entry.get(f"{name}_reason")
    return math.nan if reason is None else -math.inf if reason == "-inf" else math.inf


def _factors(tensors: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    factors: dict[str, float] = {}
    for name, events in tensors.items():
        for event in events:
            if event["event"] == "scaled":
                factor = math.inf if event["factor"] is None else event["factor"]
                factors[sys.intern(name)] = factors.get(name, 1.0) * factor
    return factors
