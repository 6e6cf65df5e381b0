"""The results frame: one row per trial, one column for each thing that varies or was measured.

It has a trial's arguments as well as its labels, so that an analysis can be a single `groupby`.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.labels import (
    Labels,
    architecture_label,
    component_label,
    initializer_labels,
    nested_components,
    scheme_label,
    tuned_keys,
)
from initbench.comparing.metrics import outcome_key, outcome_names
from initbench.comparing.treatments import DEFAULT_COMPARE, check_compare, standings
from initbench.ledger import TrialRecord
from initbench.reporting.records import OF_ONE_TRIAL, read_records
from initbench.reporting.resolved import read_compare
from initbench.suite.spec import cell_id

GQ = "probe.gradient_quotient"
_IDENTITY = ["trial_id", "suite", "status", "phase", "architecture", "scheme", "initializer", "dataset", "seed"]
_TUNED = ["protocols"]  # only if a suite tunes
_PAIRING = ["treatment", "workload", "cell", "architecture_label", "metric"]
_OUTCOME = ["outcome", "chance", "chance_standard_error"]
_OF_STANDING = ["scheme_named_by", "part", "rest"]
_TRAINING = ["diverged_at_step", "steps", "parameters"]  # of every training, whatever its task


def load_results(path: str | Path, compare: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the results of a suite, one row per trial, including failed ones.

    The columns, in this order:

    - ``trial_id, suite, status, phase, architecture, scheme, initializer, dataset, seed``: names, except `initializer`,
      which is the full label, such as ``metainit(delta_orthogonal)`` or ``delta_orthogonal[gain=2]``;
    - ``protocols``, if a suite tunes: the protocols (``recipe``, ``shared``, ``own``) that a final trial belongs to,
      separated by spaces; empty for a search trial;
    - ``treatment, workload, cell, architecture_label, metric``: what is compared (by default the initializer); the
      setting of the comparison, which is everything else except the seed and what rules set; the hash of the trial
      without its seed and its probes, which is equal for replicates; the architecture with its arguments; and the name
      of the outcome;
    - ``architecture.<arg>``, ``initializer.<arg>``, ``recipe.<arg>``;
    - ``outcome``: the value of the task's primary metric; missing for a trial that failed, was not trained (0 epochs)
      or diverged, which counts as the worst outcome;
    - ``chance``, ``chance_standard_error``: the outcome of the best model that ignores its inputs; missing if the
      record does not have it;
    - metrics by their names: errors and accuracies as fractions, missing for a failed trial; one of them is
      ``mean_train_loss``, the mean of the training loss over the epochs;
    - ``probe.<name>`` for every scalar measurement, and ``probe.<name>.saturated`` if it can saturate;
    - durations, whose names end in ``_seconds``.

    If a trial belongs to two workloads of a report (`comparing.treatments`), its row has the workload of the scheme
    that the suite named. A record that cannot be read is left out with a warning.

    Args:
        path: the suite's folder, ``runs/<suite name>``.
        compare: the factors that make the treatment; by default those of the suite in the folder.

    Raises:
        InitbenchError: the folder has no readable trial records; or no trial has one of the factors.
    """
    skipped: list[str] = []
    records = read_records(path, skipped)
    for line in skipped:
        warnings.warn(f"skipped {line}", stacklevel=2)
    return results_frame(records, read_compare(path) if compare is None else compare)


def results_frame(records: Sequence[TrialRecord], compare: Sequence[str] = DEFAULT_COMPARE) -> pd.DataFrame:
    """Return the frame of `load_results` from records in any order, sorted by workload, treatment, seed and id."""
    return results_frames(records, compare).trials


class Frames(NamedTuple):
    """Results frames of the same records.

    Attributes:
        trials: one row per trial.
        standings: one row per trial and workload that it is compared in. Three more columns: ``scheme_named_by``, and
            ``part`` and ``rest`` of the treatment (`Labels.part`).
        labels: the labels in the frames, with their keys.
    """

    trials: pd.DataFrame
    standings: pd.DataFrame
    labels: Labels


def results_frames(records: Sequence[TrialRecord], compare: Sequence[str] = DEFAULT_COMPARE) -> Frames:
    """Return the frames of slim records in any order.

    Raises:
        InitbenchError: no trial has a factor of `compare`, or a factor is given twice.
    """
    labels = Labels(compare)
    rows = _standing_rows([record.spec for record in records], compare, labels)
    names, key, cells = outcome_names(records), cache(natural), _cells(records)

    def order(row: tuple[int, bool, dict[str, Any]]) -> tuple[Any, ...]:
        trial, _, columns = row
        record = records[trial]
        return key(columns["workload"]), key(columns["treatment"]), record.spec["seed"], record.id

    rows.sort(key=order)
    # By column, because a mapping for each of 10,000 rows takes 50 MB.
    columns: dict[str, list[Any]] = defaultdict(lambda: [math.nan] * len(rows))
    for i, (trial, _, of_spec) in enumerate(rows):
        record = records[trial]
        row = _row(record) | of_spec | {"cell": cells[trial], "metric": names[trial]}
        for name, value in row.items():
            columns[name][i] = value
    whole = _typed(pd.DataFrame(columns, columns=_columns(columns)))
    del columns
    is_first = np.array([first for _, first, _ in rows], dtype=bool)
    trials = whole.drop(columns=_OF_STANDING)  # shares its memory
    return Frames(trials if is_first.all() else trials[is_first].reset_index(drop=True), whole, labels)


def kinds(specs: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[int]]:
    """Return the first spec of each kind, and for each spec the index of its kind.

    Specs of one kind differ only in the seed and the probes. Equal parts must be the same object (`sharing.Shared`).
    """
    numbers: dict[tuple[Any, ...], int] = {}
    kind_of = [numbers.setdefault(_kind(spec), len(numbers)) for spec in specs]
    first = dict(zip(reversed(kind_of), reversed(specs), strict=True))
    return [first[kind] for kind in range(len(numbers))], kind_of


def _kind(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        id(value) if isinstance(value, dict | list | tuple) else value
        for key, value in spec.items()
        if key not in OF_ONE_TRIAL
    )


def _standing_rows(
    specs: Sequence[Mapping[str, Any]], compare: Sequence[str], labels: Labels
) -> list[tuple[int, bool, dict[str, Any]]]:
    """Return for each standing of each trial: the trial's index, whether it is its first standing, and the columns.

    The columns are those that follow from the spec alone. They are computed once for each kind.
    """
    each, kind_of = kinds(specs)
    check_compare(compare, each)
    initializers, nested = initializer_labels(each), nested_components([spec["initializer"] for spec in each])
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for trial, scheme_named_by, treatment, workload in standings(each, compare):
        part, rest = labels.part(treatment)
        rows[trial].append(
            {
                "initializer": initializers[trial],
                **_arguments(each[trial], {key: component_label(value) for key, value in nested[trial].items()}),
                "treatment": labels.treatment(treatment),
                "workload": labels.workload(workload),
                "architecture_label": architecture_label(workload),
                "scheme_named_by": scheme_named_by,
                "part": part,
                "rest": rest,
            }
        )
    return [(trial, i == 0, row) for trial, kind in enumerate(kind_of) for i, row in enumerate(rows[kind])]


def _arguments(spec: Mapping[str, Any], nested: Mapping[str, str]) -> dict[str, Any]:
    initializer = spec["initializer"]["arguments"] | nested
    return {
        **{f"architecture.{key}": _plain(value) for key, value in spec["architecture"]["arguments"].items()},
        **{f"initializer.{key}": _plain(value) for key, value in initializer.items()},
        **{f"recipe.{key}": _plain(value) for key, value in spec["recipe"].items()},
    }


def _plain(value: Any) -> Any:
    """Return an argument as a cell of a table: null as missing, a list or a mapping as text."""
    if value is None:
        return math.nan
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _row(record: TrialRecord) -> dict[str, Any]:
    """Return the columns of a trial that follow from its record alone, except those of `_standing_rows`."""
    spec, key = record.spec, outcome_key(record)
    metric = record.task.get("metrics", {}).get(key, {})
    row = {name: value for name, value in record.metrics.items() if not name.endswith("_reason")}
    row |= {
        "trial_id": record.id,
        "suite": spec["suite"],
        "status": record.status,
        "phase": spec["phase"],
        "architecture": spec["architecture"]["name"],
        "scheme": scheme_label(spec),
        "dataset": spec["dataset"]["name"],
        "seed": spec["seed"],
        "outcome": record.metrics.get(key) if record.status == "finished" else None,
        "chance": metric.get("chance"),
        "chance_standard_error": metric.get("chance_standard_error"),
    }
    if tuned_keys(spec):
        row["protocols"] = " ".join(spec.get("protocols", ()))
    for probe in record.probes:
        if probe["kind"] != "scalar":
            continue
        row[f"probe.{probe['name']}"] = probe["value"]
        if "saturated" in probe.get("conditions", {}):
            row[f"probe.{probe['name']}.saturated"] = probe["conditions"]["saturated"]
    return row | {name: value for name, value in record.timing.items() if name.endswith("_seconds")}


def _cells(records: Sequence[TrialRecord]) -> list[str]:
    """Return the hash of each record's cell; without tuned values, which differ from seed to seed."""
    tuned = [tuple(sorted(tuned_keys(record.spec))) for record in records]
    keys = [(id(record.identity), names) for record, names in zip(records, tuned, strict=True)]
    identities = {key: record.identity for key, record in zip(keys, records, strict=True)}
    hashes = {key: cell_id(identity, key[1]) for key, identity in identities.items()}
    return [hashes[key] for key in keys]


def _columns(names: Collection[str]) -> list[str]:
    others = sorted(set(names) - {*_IDENTITY, *_TUNED, *_PAIRING, *_OUTCOME, *_TRAINING})
    arguments = [key for kind in ("architecture.", "initializer.", "recipe.") for key in others if key.startswith(kind)]
    probes = [key for key in others if key.startswith("probe.")]
    durations = [key for key in others if key.endswith("_seconds")]
    metrics = sorted({*others}.difference(arguments, probes, durations))
    tuned = [name for name in _TUNED if name in names]
    return [*_IDENTITY, *tuned, *_PAIRING, *arguments, *_OUTCOME, *metrics, *_TRAINING, *probes, *durations]


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Make columns in which every value is missing numeric."""
    first = list(frame.columns).index("outcome")
    for column in frame.columns[first:]:
        if column.endswith(".saturated"):
            frame[column] = frame[column].astype("boolean")
        elif column not in _OF_STANDING:
            frame[column] = pd.to_numeric(frame[column])
    return frame
