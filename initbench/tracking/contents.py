"""What MLflow shows of a trial: its run's name, tags, parameters and metrics. Pure functions of the record.

MLflow's UI makes one chart section per prefix before a ``/``: final metrics have none, so that `test_error` is found
at once; ``curves/``, ``probe/`` and ``timing/`` follow.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import TYPE_CHECKING, Any

from initbench.suite.labels import architecture_labels, component_labels, initializer_labels

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
    """Return the labels of each trial among the others: ``architecture``, ``initializer`` and ``dataset``.

    Args:
        specs: every `TrialSpec` of the suite, as plain data; a label shows the arguments that vary among them.
    """
    datasets = component_labels([spec["dataset"] for spec in specs])
    labels = zip(architecture_labels(specs), initializer_labels(specs), datasets, strict=True)
    return [{"architecture": a, "initializer": i, "dataset": d} for a, i, d in labels]


def run_name(record: TrialRecord, labels: Mapping[str, str]) -> str:
    """Return the run's name: ``kaiming · wrn[depth=28, width=1] · seed 0``.

    The initializer is what is compared, so it comes first: the UI cuts names after some twenty characters.
    """
    return f"{labels['initializer']} · {labels['architecture']} · seed {record.spec['seed']}"


def tags(record: TrialRecord, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the tags by which runs are found, grouped and filtered.

    Args:
        record: the trial.
        labels: ``architecture`` and ``initializer``, and ``dataset`` where several are told apart.
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
    if record.error:
        result["error"] = _text(f"{record.error.get('type')}: {record.error.get('message')}")
    return result | {key: _text(label) for key, label in labels.items()}


def parameters(record: TrialRecord) -> dict[str, str]:
    """Return the trial's settings under ``architecture.``, ``initializer.``, ``dataset.``, ``recipe.`` and ``probe.``.

    The conditions of a probe (ε, batch size, what share of a gradient lies below ε) are among them: its value means
    nothing without them.
    """
    spec = record.spec
    settings: dict[str, Any] = {}
    for kind in ("architecture", "initializer", "dataset"):
        settings |= _component(kind, spec[kind])
    settings |= {f"recipe.{key}": value for key, value in spec["recipe"].items()}
    for probe in record.probes:
        conditions = probe.get("conditions") or {}
        settings |= {
            f"probe.{probe['name']}.{key}": value
            for key, value in conditions.items()
            if not isinstance(value, dict | list)
        }
    return {clean_name(key): _text(value) for key, value in settings.items()}


def metrics(record: TrialRecord) -> dict[tuple[str, int], float]:
    """Return every finite number as (name, step) → value, in the order of the steps, one value per step.

    Final metrics, probes and timing have step 0; a curve's step is the number of the training step.
    """
    values = {(clean_name(key), 0): value for key, value in _finite(record.metrics)}
    values |= {
        (clean_name(f"probe/{probe['name']}"), 0): float(probe["value"])
        for probe in record.probes
        if _is_finite(probe["value"])
    }
    values |= {(clean_name(f"timing/{key}"), 0): value for key, value in _finite(record.timing) if key != "ended_at"}
    for entry in sorted(record.history, key=lambda entry: int(entry["step"])):
        for key, value in _finite(entry):
            if key not in {"step", "epoch"}:
                values[clean_name(f"curves/{key}"), int(entry["step"])] = value
    return values


def clean_name(name: str) -> str:
    """Return `name` in the characters that MLflow allows: ``gradient_quotient[data=real]`` → ``... data-real``."""
    words = name.replace("[", " ").replace("]", "").replace(",", "").replace("=", "-")
    return re.sub(r"[^\w./ -]", "-", words, flags=re.ASCII)


def _component(prefix: str, component: Mapping[str, Any]) -> dict[str, Any]:
    result = {f"{prefix}.{key}": value for key, value in component["arguments"].items()}
    if component.get("batch_size") is not None:
        result[f"{prefix}.batch_size"] = component["batch_size"]
    if base := component.get("base"):
        result |= {f"{prefix}.base": base["name"], **_component(f"{prefix}.base", base)}
    return result


def _finite(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return ((key, float(value)) for key, value in values.items() if _is_finite(value))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."
