"""What MLflow shows of a trial: its run's name, tags, parameters and metrics. Pure functions of the record.

MLflow's UI makes one chart section per prefix before a ``/``: final metrics have none, so that the outcome is found
at once; ``curves/``, ``layers/``, ``probe/`` and ``timing/`` follow.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any

from initbench.suite.labels import architecture_labels, component_labels, initializer_labels, is_component

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from initbench.ledger import TrialRecord

TRIAL_ID = "initbench.trial_id"
RECORD_DIGEST = "initbench.record"
KIND = "initbench.kind"
TRIAL, REPORT = "trial", "report"
"""The kinds of runs; the report's folder of artifacts has its name."""
RECORD_FILE = "trial.json"
_MAX_TEXT = 500
_MAX_POINTS = 200
"""Most numbers of one measurement: MLflow draws a chart for each layer. All of them are in the record, an artifact."""


def record_text(record: TrialRecord) -> str:
    """Return the record as the ledger writes it, so that it can be read back whole, in the same order."""
    return json.dumps(record.to_json(), allow_nan=False)


def record_digest(record: TrialRecord) -> str:
    """Return the SHA-256 of the record's numbers: an attempt that came to something else has another.

    Durations and the environment are left out: the same trial run again elsewhere is the same run.
    """
    text = json.dumps(record.numbers(), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def trial_labels(specs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the labels of each trial among the others: ``architecture``, ``initializer``, ``dataset`` and ``place``.

    The place is what runs are named by: the architecture, and the dataset where there are several.

    Args:
        specs: every `TrialSpec` of the suite, as plain data; a label shows the arguments that vary among them.
    """
    datasets = component_labels([spec["dataset"] for spec in specs])
    labels = zip(architecture_labels(specs), initializer_labels(specs), datasets, strict=True)
    several = len(set(datasets)) > 1
    return [
        {"architecture": a, "initializer": i, "dataset": d, "place": f"{a} · {d}" if several else a}
        for a, i, d in labels
    ]


def run_name(record: TrialRecord, labels: Mapping[str, str]) -> str:
    """Return the run's name: ``kaiming · wrn[depth=28, width=1] · seed 0``, with the dataset where there are several.

    The initializer is what is compared, so it comes first: the UI cuts names after some twenty characters.
    """
    return f"{labels['initializer']} · {labels['place']} · seed {record.spec['seed']}"


def tags(record: TrialRecord, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the tags by which runs are found, grouped and filtered.

    Args:
        record: the trial.
        labels: as from `trial_labels`.
    """
    spec = record.spec
    arguments = spec["architecture"]["arguments"]
    result = {
        KIND: TRIAL,
        TRIAL_ID: record.id,
        "suite": spec["suite"],
        "scheme": spec["scheme"],
        "dataset": spec["dataset"]["name"],
        "seed": _text(spec["seed"]),
        "status": record.status,
        "phase": spec["phase"],
    }
    result |= {key: _text(arguments[key]) for key in ("depth", "width") if key in arguments}
    if record.task:
        result |= {"task": record.task["name"], "metric": record.task["primary"]}
    if record.error:
        result["error"] = _text(f"{record.error.get('type')}: {record.error.get('message')}")
    return result | {key: _text(labels[key]) for key in ("architecture", "initializer", "dataset")}


def parameters(record: TrialRecord) -> dict[str, str]:
    """Return the trial's settings under ``architecture.``, ``initializer.``, ``dataset.``, ``recipe.`` and ``probe.``.

    The conditions of a probe (ε, batch size, what share of a gradient lies below ε) are among them: its value means
    nothing without them. So is the chance level of each metric that has one, under ``chance.``.
    """
    spec = record.spec
    settings: dict[str, Any] = {}
    for kind in ("architecture", "initializer", "dataset"):
        settings |= _arguments(kind, spec[kind])
    settings |= {f"recipe.{key}": value for key, value in spec["recipe"].items()}
    for name, metric in record.task.get("metrics", {}).items():
        if metric["chance"] is not None:
            settings[f"chance.{name}"] = metric["chance"]
    for probe in record.probes:
        settings |= {
            f"probe.{probe['name']}.{key}": value
            for key, value in probe["conditions"].items()
            if not isinstance(value, dict | list)
        }
    return {clean_name(key): _text(value) for key, value in settings.items()}


def metrics(record: TrialRecord) -> dict[tuple[str, int], float]:
    """Return every finite number as (name, step) → value, in the order of the steps, one value per step.

    Final metrics, scalars of probes, layers and timing have step 0. The step of a training curve is the number of the
    training step; that of a curve of a probe its place, where the places are integers, else the number of its point.
    """
    values = {(clean_name(key), 0): value for key, value in _finite(record.metrics)}
    for probe in record.probes:
        values |= {(clean_name(name), step): value for (name, step), value in _measurement(probe)}
    values |= {(clean_name(f"timing/{key}"), 0): value for key, value in _finite(record.timing) if key != "ended_at"}
    for entry in sorted(record.history, key=lambda entry: int(entry["step"])):
        for key, value in _finite(entry):
            if key not in {"step", "epoch"}:
                values[clean_name(f"curves/{key}"), int(entry["step"])] = value
    return values


def _measurement(probe: Mapping[str, Any]) -> list[tuple[tuple[str, int], float]]:
    """Return the finite numbers of a measurement, each with its name and step; of very many some, evenly spread."""
    name, kind = probe["name"], probe["kind"]
    if kind == "per_layer":
        # `gradient_norm.per_layer` is one of several measurements of its probe; here the prefix says what it is.
        prefix = f"layers/{name.removesuffix('.per_layer')}"
        found = [((f"{prefix}/{layer}", 0), value) for layer, value in probe["values"].items()]
    elif kind == "curve":
        places = probe["x"]
        steps = places if all(_is_step(x) for x in places) and len(set(places)) == len(places) else range(len(places))
        found = sorted(((f"probe/{name}", int(step)), y) for step, y in zip(steps, probe["y"], strict=True))
    else:
        found = [((f"probe/{name}", 0), probe["value"])]
    some = max(1, math.ceil(len(found) / _MAX_POINTS))
    return [(at, float(value)) for at, value in found[::some] if _is_finite(value)]


def clean_name(name: str) -> str:
    """Return `name` in the characters that MLflow allows: ``gradient_quotient[data=real]`` → ``... data-real``."""
    words = name.replace("[", " ").replace("]", "").replace(",", "").replace("=", "-")
    return re.sub(r"[^\w./ -]", "-", words, flags=re.ASCII)


def _arguments(prefix: str, component: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component's arguments; one that is an initializer itself by its name, with its own arguments below."""
    result: dict[str, Any] = {}
    for name, value in component["arguments"].items():
        key = f"{prefix}.{name}"
        if is_component(value):
            result |= {key: value["name"]} | _arguments(key, value)
        else:
            result[key] = value
    return result


def _finite(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((key, float(value)) for key, value in values.items() if _is_finite(value))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_step(value: Any) -> bool:
    """Return whether MLflow can take a place as a step, an integer of 64 bits."""
    return _is_finite(value) and value == int(value) and abs(value) < 2**63


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
