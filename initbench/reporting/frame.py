"""The results frame: one row per trial, one column per thing that varies or was measured.

It holds a trial's arguments as well as its labels, so that an analysis is a `groupby` and nothing more.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.errors import InitbenchError
from initbench.ledger import Ledger, TrialRecord
from initbench.suite.labels import architecture_labels, component_labels, initializer_labels
from initbench.suite.spec import cell_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

GQ = "probe.gradient_quotient"
CURVE_POINTS = 60
_IDENTITY = ["trial_id", "suite", "status", "phase", "architecture", "scheme", "initializer", "dataset", "seed"]
_PAIRING = ["architecture_label", "group", "cell"]
_METRICS = [
    "test_error",
    "test_loss",
    "first_epoch_accuracy",
    "best_test_accuracy",
    "train_loss",
    "train_error",
    "validation_error",
    "diverged_at_step",
    "steps",
    "parameters",
]


def load_results(path: str | Path) -> pd.DataFrame:
    """Return the results of a suite, one row per trial, failed ones included.

    The columns, in this order:

    - ``trial_id, suite, status, phase, architecture, scheme, initializer, dataset, seed``: names, but `initializer` is
      the full label, such as ``metainit(delta_orthogonal)`` or ``delta_orthogonal[gain=2]``;
    - ``architecture_label, group, cell``: the architecture with its arguments; what is compared within, namely
      architecture × scheme × dataset × recipe without what rules set; and the hash of the trial without its seed and
      its probes, so that the trials of one cell are replicates;
    - ``architecture.<arg>``, ``initializer.<arg>``, ``recipe.<arg>``;
    - metrics by their names: errors and accuracies as fractions, missing for a failed trial; `test_error` is missing
      for a diverged one, which counts as the worst outcome;
    - ``probe.<name>``, and ``probe.<name>.saturated`` where the probe can saturate;
    - durations, ending in ``_seconds``.

    Args:
        path: the suite's folder, ``runs/<suite name>``.

    Raises:
        InitbenchError: the folder has no trial records, or one that cannot be read.
    """
    return results_frame(read_records(path))


def read_records(path: str | Path, skipped: list[str] | None = None) -> list[TrialRecord]:
    """Return a suite's trial records, as `slim` leaves them.

    Args:
        path: the suite's folder.
        skipped: where given, files that are not records are passed over, and a line that names each is added here.

    Raises:
        InitbenchError: the folder has no trial records; or one that cannot be read, where `skipped` is not given.
    """
    ledger = Ledger(path)
    records = [slim(record) for record in ledger.records(skipped)]
    if not records:
        unreadable = f"; {len(skipped)} cannot be read, such as {skipped[0]}" if skipped else ""
        raise InitbenchError(
            f"{path}: no trial records in {ledger.trials}{unreadable or '; give the folder of a suite that has run'}"
        )
    return records


def slim(record: TrialRecord) -> TrialRecord:
    """Return a record with what a report needs: of the history a curve, of the initialization its cost.

    The curve has at most `CURVE_POINTS` points that are `drawn`. Which these are depends on their epochs alone, so that
    the trials of one cell keep the same ones, also where one of them diverged early. Beside them every entry is kept
    that has a lower test error than all before: one of these is the first at any target.
    """
    epochs = record.spec["recipe"]["epochs"]
    curve: list[dict[str, Any]] = []
    last, lowest = 0, math.inf
    for entry in record.history:
        if "test_error" not in entry:
            continue
        place = int(entry["epoch"] * CURVE_POINTS / epochs)
        drawn, error = place > last, entry["test_error"]
        if drawn or (error is not None and error < lowest):
            curve.append({key: entry[key] for key in ("step", "epoch", "test_error")} | {"drawn": drawn})
        last = max(last, place)
        lowest = lowest if error is None else min(lowest, error)
    initialization = {"cost": record.initialization["cost"]} if record.initialization.get("cost") else {}
    return replace(record, history=curve, initialization=initialization)


def results_frame(records: Sequence[TrialRecord]) -> pd.DataFrame:
    """Return the frame of `load_results` from records in any order; rows are sorted by group, initializer and seed."""
    specs = [record.spec for record in records]
    architectures, groups = _groups(specs)
    bases = [spec["initializer"].get("base") for spec in specs]
    base_labels = iter(component_labels([base for base in bases if base]))
    labels = initializer_labels(specs)
    rows = []
    for i, record in enumerate(records):
        spec = record.spec
        row = {
            "trial_id": record.id,
            "suite": spec["suite"],
            "status": record.status,
            "phase": spec["phase"],
            "architecture": spec["architecture"]["name"],
            "scheme": spec["scheme"],
            "initializer": labels[i],
            "dataset": spec["dataset"]["name"],
            "seed": spec["seed"],
            "architecture_label": architectures[i],
            "group": groups[i],
            "cell": cell_id(spec),
        }
        initializer = dict(spec["initializer"]["arguments"])
        if bases[i]:
            initializer["base"] = next(base_labels)
        if spec["initializer"].get("batch_size") is not None:
            initializer["batch_size"] = spec["initializer"]["batch_size"]
        row |= {f"architecture.{k}": _plain(v) for k, v in spec["architecture"]["arguments"].items()}
        row |= {f"initializer.{k}": _plain(v) for k, v in initializer.items()}
        row |= {f"recipe.{k}": _plain(v) for k, v in spec["recipe"].items()}
        row |= {k: v for k, v in record.metrics.items() if not k.endswith("_reason")}
        for probe in record.probes:
            row[f"probe.{probe['name']}"] = probe["value"]
            if "saturated" in probe.get("conditions", {}):
                row[f"probe.{probe['name']}.saturated"] = probe["conditions"]["saturated"]
        row |= {k: v for k, v in record.timing.items() if k.endswith("_seconds")}
        rows.append(row)
    rows.sort(key=lambda row: (natural(row["group"]), natural(row["initializer"]), row["seed"], row["trial_id"]))
    return _typed(pd.DataFrame(rows, columns=_columns(rows)))


def natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key by which ``depth=16`` stands before ``depth=100``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


def _groups(specs: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the architecture's label and the group of each trial.

    A key that a rule sets for some trials of an architecture is ignored for all of them: a learning rate that is
    lowered for one initializer alone must not take this initializer out of the comparison. Of several suites, those
    that have the architecture without such a rule are not compared with those that have one: there the key's value
    reads "by rules".
    """
    rules: dict[tuple[str, str], set[str]] = defaultdict(set)
    for spec in specs:
        rules[spec["architecture"]["name"], spec["suite"]].update(spec["set_by_rules"])
    everywhere: dict[str, set[str]] = {}
    for (name, _), keys in rules.items():
        everywhere[name] = everywhere.get(name, keys) & keys
    specs = [_without(spec, rules[spec["architecture"]["name"], spec["suite"]]) for spec in specs]
    ignored = [everywhere[spec["architecture"]["name"]] for spec in specs]
    architectures = architecture_labels(
        [spec | {"set_by_rules": keys} for spec, keys in zip(specs, ignored, strict=True)]
    )
    datasets = component_labels([spec["dataset"] for spec in specs], [_within("dataset", keys) for keys in ignored])
    recipes = component_labels(
        [{"name": "", "arguments": spec["recipe"]} for spec in specs], [_within("recipe", keys) for keys in ignored]
    )
    if len(set(datasets)) == 1:
        datasets = [""] * len(datasets)
    parts = zip(architectures, datasets, [recipe.strip("[]") for recipe in recipes], strict=True)
    return architectures, [" · ".join(part for part in three if part) for three in parts]


def _without(spec: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Return a spec whose keys that rules set are marked, in place of their values."""
    marked = {"architecture": spec["architecture"], "dataset": spec["dataset"], "recipe": spec["recipe"]}
    for key in keys:
        kind, _, name = key.partition(".")
        if kind == "recipe":
            marked[kind] = marked[kind] | {name: "by rules"}
        elif kind in marked:
            marked[kind] = marked[kind] | {"arguments": marked[kind]["arguments"] | {name: "by rules"}}
    return spec | marked


def _within(kind: str, keys: Iterable[str]) -> set[str]:
    return {key.partition(".")[2] for key in keys if key.startswith(f"{kind}.")}


def _plain(value: Any) -> Any:
    """Return an argument as a cell of a table: null as missing, a list or a mapping as text."""
    if value is None:
        return math.nan
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    found = {key for row in rows for key in row} - {*_IDENTITY, *_PAIRING, *_METRICS}
    sections = [
        *sorted(key for key in found if key.startswith("architecture.")),
        *sorted(key for key in found if key.startswith("initializer.")),
        *sorted(key for key in found if key.startswith("recipe.")),
    ]
    probes = sorted(key for key in found if key.startswith("probe."))
    durations = sorted(key for key in found if key.endswith("_seconds"))
    other_metrics = sorted(found.difference(sections, probes, durations))
    return [*_IDENTITY, *_PAIRING, *sections, *_METRICS, *other_metrics, *probes, *durations]


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with numbers, not objects, in columns where every value is missing."""
    for column in frame.columns:
        if column.endswith(".saturated"):
            frame[column] = frame[column].astype("boolean")
        elif column in _METRICS or column.startswith("probe.") or column.endswith("_seconds"):
            frame[column] = pd.to_numeric(frame[column])
    return frame
