"""What MLflow draws of a trial: its metrics, and the table of its layers. Pure functions of the record.

MLflow's UI makes one chart section per prefix before a ``/``: ``curves/``, ``layers/``, ``probe/``, ``timing/`` and
``tuning/``. Final numbers have none and share one section. A metric with several steps is a line, one with a single
step a bar.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from initbench.ledger import TrialRecord
from initbench.tracking.contents import SATURATED, clean_name
from initbench.visible_text import visible

Point = tuple[int, Any]  # a step and its value

LAYERS_FILE = "layers.csv"
"""The artifact that `layer_table` is written to; MLflow's UI shows it as a table."""
_MAX_POINTS = 200
"""Most points of one measurement, or of what a tuner did. All of them are in the record, an artifact."""


def metrics(record: TrialRecord) -> dict[tuple[str, int], float]:
    """Return every finite number as (name, step) → value, in the order of the steps, one value per step.

    Final metrics, scalars of probes and timing have step 0. What else has steps:

    - ``curves/<name>``: the number of the training step.
    - ``tuning/<name>``: the step of the initializer that tunes.
    - ``layers/<probe>``: the place of the layer in the model's order, from 0, so that one chart shows the profile of a
      network and lays it over another's; `layer_table` says which layer that is. Where there are weights, what is none
      (biases and other scalars, whose values are of another size) is ``layers/<probe>.others``.
    - ``probe/<name>`` of a curve: its place, where the places are integers, else the number of its point.

    Three numbers have one name in every suite, so that MLflow's columns and plots can use them whatever the task:
    ``outcome``, the value of the primary metric of a trial that was trained to its end; ``diverged``, 0 or 1, of one
    that did not fail; and ``probe/<name>.saturated``, 0 or 1, of each probe that can saturate.
    """
    values = {(clean_name(key), 0): value for key, value in _finite(record.metrics)}
    values |= {(key, 0): value for key, value in _finite(_result(record))}
    for probe in record.probes:
        for name, points in _measurement(probe).items():
            values |= _series(name, points)
        if SATURATED in probe["conditions"]:
            values[clean_name(f"probe/{probe['name']}.{SATURATED}"), 0] = float(probe["conditions"][SATURATED])
    values |= {(clean_name(f"timing/{key}"), 0): value for key, value in _finite(record.timing) if key != "ended_at"}
    for name, points in _tuning(record.initialization.get("history", [])).items():
        values |= _series(f"tuning/{name}", points)
    for entry in sorted(record.history, key=lambda entry: int(entry["step"])):
        for key, value in _finite(entry):
            if key not in {"step", "epoch"}:
                values[clean_name(f"curves/{key}"), int(entry["step"])] = value
    return values


def layer_table(record: TrialRecord) -> str:
    """Return which layer each step of ``layers/<probe>`` is, as CSV; empty where no probe measures layers.

    The columns are ``metric, step, layer, value, unit``; there is a row for every layer, whatever is drawn of them.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["metric", "step", "layer", "value", "unit"])
    measured = [probe for probe in record.probes if probe["kind"] == "per_layer"]
    for probe in measured:
        names = _layer_names(probe)
        for step, (layer, value) in enumerate(probe["values"].items()):
            rows.writerow(
                [clean_name(names[layer]), step, layer, "" if value is None else value, probe.get("unit", "")]
            )
    return visible(text.getvalue(), keep="\t\n") if measured else ""


def _result(record: TrialRecord) -> dict[str, Any]:
    """Return what came of training, under names that are the same for every task."""
    if record.status == "failed":
        return {}
    outcome = record.metrics.get(record.task.get("primary", "")) if record.status == "finished" else None
    return {"outcome": outcome, "diverged": int(record.status == "diverged")}


def _measurement(probe: Mapping[str, Any]) -> dict[str, list[Point]]:
    """Return the points of a measurement's metrics, by name."""
    name, kind = probe["name"], probe["kind"]
    if kind == "per_layer":
        names = _layer_names(probe)
        points: dict[str, list[Point]] = {}
        for place, (layer, value) in enumerate(probe["values"].items()):
            points.setdefault(names[layer], []).append((place, value))
        return points
    if kind == "curve":
        places = probe["x"]
        steps = places if all(_is_step(x) for x in places) and len(set(places)) == len(places) else range(len(places))
        return {f"probe/{name}": sorted((int(step), y) for step, y in zip(steps, probe["y"], strict=True))}
    return {f"probe/{name}": [(0, probe["value"])]}


def _layer_names(probe: Mapping[str, Any]) -> dict[str, str]:
    """Return the metric of each layer."""
    # `gradient_norm.per_layer` is one of several measurements of its probe; here the prefix says what it is.
    name = f"layers/{probe['name'].removesuffix('.per_layer')}"
    weights = {layer for layer in probe["values"] if layer.endswith("weight")}
    return {layer: name if layer in weights or not weights else f"{name}.others" for layer in probe["values"]}


def _tuning(history: Sequence[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """Return what a tuner did at each of its steps, by name; a step that it does not number is counted."""
    found: dict[str, dict[int, Any]] = {}
    for place, entry in enumerate(history):
        step: Any = entry.get("step")
        for key, value in entry.items():
            if key != "step":
                found.setdefault(key, {})[int(step) if _is_step(step) else place] = value
    return {key: sorted(points.items()) for key, points in found.items()}


def _series(name: str, points: Sequence[Point]) -> dict[tuple[str, int], float]:
    """Return the finite points of a metric; of very many some, evenly spread, with the first and the last."""
    last = len(points) - 1
    if last >= _MAX_POINTS:
        points = [points[i * last // (_MAX_POINTS - 1)] for i in range(_MAX_POINTS)]
    return {(clean_name(name), step): float(value) for step, value in points if _is_finite(value)}


def _finite(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((key, float(value)) for key, value in values.items() if _is_finite(value))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_step(value: Any) -> bool:
    """Return whether MLflow can take a place as a step, an integer of 64 bits."""
    return _is_finite(value) and value == int(value) and abs(value) < 2**63
