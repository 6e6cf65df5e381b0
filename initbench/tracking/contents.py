"""The contents of a trial's MLflow run: name, tags, parameters and metrics. Pure functions of the record.

MLflow's UI makes one chart section per prefix before a ``/``; final numbers have no prefix and share one section. A
metric with several steps is a line, with one step a bar.
"""

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from initbench.comparing.keys import Component, Key
from initbench.comparing.labels import (
    ALWAYS,
    architecture_labels,
    component_label,
    component_labels,
    ignored_arguments,
    initializer_labels,
    is_component,
    scheme_label,
    value_text,
    with_scheme,
)
from initbench.ledger import TrialRecord
from initbench.visible_text import visible

TRIAL_ID = "initbench.trial_id"
RECORD_DIGEST = "initbench.record"
LAYOUT = "initbench.layout"
LAYOUT_VERSION = "2"
"""The version of the names and steps; runs with another layout are written again. The first layout had no tag."""
KIND = "initbench.kind"
TRIAL, REPORT = "trial", "report"
"""The kinds of runs; the folder of the report's artifacts has the same name."""
RECORD_FILE = "trial.json"
_MAX_TEXT = 500
SATURATED = "saturated"
"""The one condition of a probe that is measured, not set; so it is a metric, not a parameter."""
Point = tuple[int, Any]  # a step and its value
LAYERS_FILE = "layers.csv"
"""The artifact with the `layer_table`; MLflow's UI shows it as a table."""
_MAX_POINTS = 200
"""The largest number of points of one series. The record, an artifact, has all of them."""


def record_text(record: TrialRecord) -> str:
    """Return the record as in the ledger, so that it can be read back completely, in the same order."""
    return json.dumps(record.to_json(), allow_nan=False)


def record_digest(record: TrialRecord) -> str:
    """Return the SHA-256 of the record's numbers, so that an attempt with another result has another digest.

    Durations and the environment are left out, so the same trial run elsewhere has the same digest.
    """
    text = json.dumps(record.numbers(), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def trial_labels(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the labels of trials, which show the arguments that vary among them; the specs are plain data.

    They are ``architecture``, ``initializer``, ``dataset`` and ``place``, the part for names of runs: the architecture,
    and the dataset if there are several.
    """
    datasets = component_labels([spec["dataset"] for spec in specs])
    labels = zip(architecture_labels(specs), initializer_labels(specs), datasets, strict=True)
    several = len(set(datasets)) > 1
    return [
        {"architecture": a, "initializer": i, "dataset": d, "place": f"{a} · {d}" if several else a}
        for a, i, d in labels
    ]


def run_name(record: TrialRecord, labels: Mapping[str, str]) -> str:
    """Return the run's name: ``kaiming · wrn[depth=28, width=1] · seed 0``, with the dataset if there are several.

    The compared initializer comes first, because the UI cuts names after some twenty characters. In a suite that tunes,
    the name has the try, ``· search lr=0.01``, or the protocols of the trial, ``· own, shared``.
    """
    name = f"{labels['initializer']} · {labels['place']} · seed {record.spec['seed']}"
    return visible(" · ".join(filter(None, [name, _tuned(record.spec)])))


def _tuned(spec: Mapping[str, Any]) -> str:
    if not (keys := spec.get("tuned")):
        return ""
    if spec["phase"] != "search":
        return ", ".join(spec.get("protocols", ()))
    values = {"recipe": spec["recipe"], "initializer": spec["initializer"]["arguments"]}
    tried = [(name, values[part][name]) for part, _, name in (key.partition(".") for key in keys)]
    return "search " + ", ".join(f"{name}={value_text(value)}" for name, value in tried)


def tags(record: TrialRecord, labels: Mapping[str, str]) -> dict[str, str]:
    spec = record.spec
    arguments = spec["architecture"]["arguments"]
    result = {
        KIND: TRIAL,
        TRIAL_ID: record.id,
        LAYOUT: LAYOUT_VERSION,
        "suite": spec["suite"],
        "scheme": scheme_label(spec),
        "dataset": spec["dataset"]["name"],
        "seed": _text(spec["seed"]),
        "status": record.status,
        "phase": spec["phase"],
    }
    result |= {key: _text(arguments[key]) for key in ("depth", "width") if key in arguments}
    if protocols := spec.get("protocols"):
        result["protocols"] = ", ".join(protocols)
    if record.task:
        result |= {"task": record.task["name"], "metric": record.task["primary"]}
    if record.error:
        result["error"] = _text(f"{record.error.get('type')}: {record.error.get('message')}")
    result |= {key: labels[key] for key in ("architecture", "initializer", "dataset")}
    return {key: _text(value) for key, value in result.items()}


def parameters(record: TrialRecord) -> dict[str, str]:
    """Return the parameters of a run: names for MLflow's columns and plots, and every setting.

    MLflow never changes a parameter, but labels change when a suite grows, because they show what varies. So the
    parameter of a component is its name with the arguments that are not at their default
    (``delta_orthogonal[gain=2]``), which distinguishes variants and depends on this trial alone; the tag of the same
    name has the label.

    The settings follow under ``architecture.``, ``initializer.``, ``dataset.``, ``recipe.`` and ``probe.``. They
    include the conditions of a probe (ε, batch size, the share of a gradient below ε), because its value means nothing
    without them. The chance level of each metric that has one is under ``chance.``, and its signature under
    ``signature.``.
    """
    spec = record.spec
    settings: dict[str, Any] = {
        "initializer": _stable_name(record, "initializer"),
        "architecture": with_scheme(_stable_name(record, "architecture", ALWAYS), scheme_label(spec)),
        "scheme": scheme_label(spec),
        "dataset": _stable_name(record, "dataset"),
        "seed": spec["seed"],
        "phase": spec["phase"],
    }
    if record.task:
        settings |= {"task": record.task["name"], "metric": record.task["primary"]}
    for kind in ("architecture", "initializer", "dataset"):
        settings |= _arguments(kind, spec[kind])
    settings |= {f"recipe.{key}": value for key, value in spec["recipe"].items()}
    settings |= {f"signature.{name}": signature for name, signature in record.task.get("signatures", {}).items()}
    for name, metric in record.task.get("metrics", {}).items():
        if metric["chance"] is not None:
            settings[f"chance.{name}"] = metric["chance"]
    for probe in record.probes:
        settings |= {
            f"probe.{probe['name']}.{key}": value
            for key, value in probe["conditions"].items()
            if not isinstance(value, dict | list) and key != SATURATED
        }
    return {clean_name(key): _text(value) for key, value in settings.items()}


def clean_name(name: str) -> str:
    """Return `name` in the characters that MLflow allows: ``gradient_quotient[data=real]`` → ``... data-real``."""
    words = name.replace("[", " ").replace("]", "").replace(",", "").replace("=", "-")
    return re.sub(r"[^\w./ -]", "-", words, flags=re.ASCII)


def _arguments(prefix: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's arguments; an argument that is an initializer becomes its name, with its arguments below."""
    result: dict[str, Any] = {}
    for name, value in component["arguments"].items():
        key = f"{prefix}.{name}"
        if is_component(value):
            result |= {key: value["name"]} | _arguments(key, value)
        else:
            result[key] = value
    return result


def _stable_name(record: TrialRecord, kind: str, always: Collection[str] = ()) -> str:
    """Return a component's name with the arguments in its identity, independent of other trials.

    Values that a rule sets or a search chooses are left out, as in a label, because they vary with the pair.
    """
    component, never = record.spec[kind], ignored_arguments(record.spec, kind)
    return component_label(_with_arguments(component, record.identity.get(kind, component), always, never))


def _with_arguments(
    component: Mapping[str, Any], identity: Mapping[str, Any], always: Collection[str] = (), never: Collection[str] = ()
) -> Component:
    shown: dict[str, Any] = {}
    for key, value in component["arguments"].items():
        if is_component(value):
            shown[key] = _with_arguments(value, identity["arguments"].get(key, value))
        elif key not in never and (key in identity["arguments"] or key in always):
            shown[key] = value
    return Component(component["name"], Key(shown))


def _text(value: Any) -> str:
    # Databases refuse halves of characters, which a record may hold, and some refuse the null character.
    text = visible(value, keep="\t\n") if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def metrics(record: TrialRecord) -> dict[tuple[str, int], float]:
    """Return every finite number as (name, step) → value, in the order of the steps, one value per step.

    Final metrics, scalars of probes and timing have step 0. The steps of other metrics are:

    - ``curves/<name>``: the training step.
    - ``tuning/<name>``: the step of the tuner.
    - ``layers/<probe>``: the position of the layer in the model's order, from 0, so that one chart shows the profile of
      a network over another's; `layer_table` names the layers. If there are weights, the other tensors (such as biases,
      whose values have another size) are under ``layers/<probe>.others``.
    - ``probe/<name>`` of a curve: its x values if they are integers, else the number of the point.

    Three numbers have one name in every suite, so that MLflow's columns and plots can use them for every task:
    ``outcome``, the primary metric of a trial that was trained to its end; ``diverged``, 0 or 1, unless the trial
    failed; and ``probe/<name>.saturated``, 0 or 1, of each probe that can saturate.
    """
    values = {(clean_name(key), 0): value for key, value in _finite(record.metrics)}
    if record.status != "failed":
        outcome = record.metrics.get(record.task.get("primary", "")) if record.status == "finished" else None
        result = {"outcome": outcome, "diverged": int(record.status == "diverged")}
        values |= {(key, 0): value for key, value in _finite(result)}
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
    """Return the layer of each step of ``layers/<probe>``, as CSV; empty if no probe measures layers.

    The columns are ``metric, step, layer, value, unit``; there is a row for every layer, even if not all are drawn.
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["metric", "step", "layer", "value", "unit"])
    measured = [probe for probe in record.probes if probe["kind"] == "per_layer"]
    for probe in measured:
        names = _layer_names(probe)
        for step, (layer, value) in enumerate(probe["values"].items()):
            number = "" if value is None else value
            rows.writerow([clean_name(names[layer]), step, layer, number, probe.get("unit", "")])
    return visible(text.getvalue(), keep="\t\n") if measured else ""


def _measurement(probe: Mapping[str, Any]) -> dict[str, list[Point]]:
    name, kind = probe["name"], probe["kind"]
    if kind == "per_layer":
        names = _layer_names(probe)
        points: dict[str, list[Point]] = {}
        for position, (layer, value) in enumerate(probe["values"].items()):
            points.setdefault(names[layer], []).append((position, value))
        return points
    if kind == "curve":
        x = probe["x"]
        steps = x if all(_is_step(value) for value in x) and len(set(x)) == len(x) else range(len(x))
        return {f"probe/{name}": sorted((int(step), y) for step, y in zip(steps, probe["y"], strict=True))}
    return {f"probe/{name}": [(0, probe["value"])]}


def _layer_names(probe: Mapping[str, Any]) -> dict[str, str]:
    # `gradient_norm.per_layer` is one of several measurements of its probe; here the prefix replaces the suffix.
    name = f"layers/{probe['name'].removesuffix('.per_layer')}"
    weights = {layer for layer in probe["values"] if layer.endswith("weight")}
    return {layer: name if layer in weights or not weights else f"{name}.others" for layer in probe["values"]}


def _tuning(history: Sequence[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """Return the values of each step of a tuner, by name; steps without numbers are counted."""
    values: dict[str, dict[int, Any]] = {}
    for number, entry in enumerate(history):
        step: Any = entry.get("step")
        for key, value in entry.items():
            if key != "step":
                values.setdefault(key, {})[int(step) if _is_step(step) else number] = value
    return {key: sorted(points.items()) for key, points in values.items()}


def _series(name: str, points: Sequence[Point]) -> dict[tuple[str, int], float]:
    """Return the finite points of a metric; of very many an evenly spread part, with the first and the last."""
    last = len(points) - 1
    if last >= _MAX_POINTS:
        points = [points[i * last // (_MAX_POINTS - 1)] for i in range(_MAX_POINTS)]
    return {(clean_name(name), step): float(value) for step, value in points if _is_finite(value)}


def _finite(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((key, float(value)) for key, value in values.items() if _is_finite(value))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_step(value: Any) -> bool:
    return _is_finite(value) and value == int(value) and abs(value) < 2**63
