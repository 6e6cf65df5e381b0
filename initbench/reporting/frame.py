"""The results frame: one row per trial, one column per thing that varies or was measured.

It holds a trial's arguments as well as its labels, so that an analysis is a `groupby` and nothing more.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections import defaultdict
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.labels import Labels, tuned_keys
from initbench.comparing.metrics import (
    has_outcome,
    mean_train_loss,
    outcome_key,
    outcome_names,
    outcome_sign,
    training_key,
)
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError
from initbench.ledger import Ledger, TrialRecord
from initbench.reporting.resolved import read_compare
from initbench.reporting.sharing import Once, Shared
from initbench.reporting.speed import uncollected
from initbench.reporting.standing_rows import OF_ONE_TRIAL, standing_rows
from initbench.reporting.tuner import kept_of
from initbench.suite.spec import cell_id

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

GQ = "probe.gradient_quotient"
CURVE_POINTS = 60
_IDENTITY = ["trial_id", "suite", "status", "phase", "architecture", "scheme", "initializer", "dataset", "seed"]
_TUNED = ["protocols"]  # of suites that tune alone
_PAIRING = ["treatment", "workload", "cell", "architecture_label", "metric"]
_OUTCOME = ["outcome", "chance", "chance_standard_error"]
_OF_STANDING = ["scheme_named_by", "part", "rest"]
_TRAINING = ["diverged_at_step", "steps", "parameters"]  # of every training, whatever its task


def load_results(path: str | Path, compare: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the results of a suite, one row per trial, failed ones included.

    The columns, in this order:

    - ``trial_id, suite, status, phase, architecture, scheme, initializer, dataset, seed``: names, but `initializer` is
      the full label, such as ``metainit(delta_orthogonal)`` or ``delta_orthogonal[gain=2]``;
    - ``protocols``, where a suite tunes: under which of ``recipe``, ``shared`` and ``own`` a final trial stands, with
      spaces between them; empty for a search trial;
    - ``treatment, workload, cell, architecture_label, metric``: what is compared (by default the initializer); what it
      is compared within, namely all else but the seed, without what rules set; the hash of the trial without its seed
      and its probes, so that the trials of one cell are replicates; the architecture with its arguments; and the name
      of the outcome;
    - ``architecture.<arg>``, ``initializer.<arg>``, ``recipe.<arg>``;
    - ``outcome``: the value of the task's primary metric; missing for a failed trial, for one that was not trained (0
      epochs), and for a diverged one, which counts as the worst outcome;
    - ``chance``, ``chance_standard_error``: of the outcome for the best model that ignores its inputs; missing where
      the record does not say it;
    - metrics by their names: errors and accuracies as fractions, missing for a failed trial; among them
      ``mean_train_loss``, the mean over the epochs of the training loss;
    - ``probe.<name>`` of every measurement that is a scalar, and ``probe.<name>.saturated`` where it can saturate;
    - durations, ending in ``_seconds``.

    A trial that stands in two workloads of a report (`comparing.treatments`) has that of the scheme that the
    suite named.
    A record that cannot be read is left out, and a warning names it.

    Args:
        path: the suite's folder, ``runs/<suite name>``.
        compare: the factors that make the treatment; by default those of the suite in the folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or no trial has a factor.
    """
    skipped: list[str] = []
    records = read_records(path, skipped)
    for line in skipped:
        warnings.warn(f"skipped {line}", stacklevel=2)
    return results_frame(records, read_compare(path) if compare is None else compare)


def read_records(path: str | Path, skipped: list[str] | None = None) -> list[TrialRecord]:
    """Return a suite's trial records, as `slim` leaves them.

    Args:
        path: the suite's folder.
        skipped: where given, files that are not records are passed over, and a line that names each is added here.

    Raises:
        InitbenchError: the folder has no trial records; or one that cannot be read, where `skipped` is not given.
    """
    ledger, shared = Ledger(path), Shared()
    with uncollected():
        records = [slim(record, shared) for record in ledger.records(skipped)]
    if not records:
        unreadable = f"; {len(skipped)} cannot be read, such as {skipped[0]}" if skipped else ""
        raise InitbenchError(
            f"{path}: no trial records in {ledger.trials}{unreadable or '; give the folder of a suite that has run'}"
        )
    return records


def slim(record: TrialRecord, shared: Shared | None = None) -> TrialRecord:
    """Return a record with what a report needs: of the history a curve, of the initialization `tuner.kept_of`.

    The curve is that of the outcome, with the same quantity on the training split where there is one. It has at most
    `CURVE_POINTS` points that are `drawn`. Which these are depends on their epochs alone (on their steps where a recipe
    counts these), so that the trials of one cell keep the same ones, also where one of them diverged early. Beside them
    every entry is kept that has a better outcome than all before: one of these is the first at any target. The identity
    is that of the cell (`suite.spec.cell_id`).

    Args:
        record: as it was written, or such already.
        shared: the parts of other records, of which those that are equal are taken.
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
        place = int(entry[unit] * CURVE_POINTS / length)
        drawn, outcome = place > last, math.inf if entry[key] is None else sign * entry[key]
        if drawn or outcome < lowest:
            curve.append({name: entry[name] for name in names if name in entry} | {"drawn": drawn})
        last = max(last, place)
        lowest = min(lowest, outcome)
    return replace(
        record,
        history=curve,
        initialization={
            name: shared.of(part) if name == "cost" else part
            for name, part in kept_of(record.initialization, CURVE_POINTS).items()
        },
        spec=shared.within(record.spec),
        identity=shared.of({key: part for key, part in record.identity.items() if key not in OF_ONE_TRIAL}),
        task=shared.of(record.task),
        environment=shared.of(record.environment),
        metrics=_with_shared_names(record.metrics | mean_train_loss(record)),
        timing=_with_shared_names(record.timing),
        probes=[_with_shared_words(probe) for probe in record.probes],
    )


def _with_shared_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values whose names are the same texts in every record."""
    return {sys.intern(name): value for name, value in values.items()}


def _with_shared_words(probe: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement whose texts, and those of its conditions and layers, are the same in every record."""
    return {
        sys.intern(name): sys.intern(value)
        if isinstance(value, str)
        else _with_shared_words(value)
        if isinstance(value, dict)
        else value
        for name, value in probe.items()
    }


def results_frame(records: Sequence[TrialRecord], compare: Sequence[str] = DEFAULT_COMPARE) -> pd.DataFrame:
    """Return the frame of `load_results` from records in any order; rows are sorted by workload, treatment and seed.

    Args:
        records: as from `read_records`.
        compare: the factors that make the treatment.

    Raises:
        InitbenchError: no trial has a factor of `compare`, or it stands twice.
    """
    return results_frames(records, compare).trials


class Frames(NamedTuple):
    """Results frames of the same records.

    Attributes:
        trials: one row per trial.
        standings: one row for each workload in which a trial is compared; the column ``scheme_named_by`` says for whom
            the row is, and ``part`` and ``rest`` are the treatment's (`Labels.part`).
        labels: that the frames have, with their keys.
    """

    trials: pd.DataFrame
    standings: pd.DataFrame
    labels: Labels


def results_frames(records: Sequence[TrialRecord], compare: Sequence[str] = DEFAULT_COMPARE) -> Frames:
    """Return what `results_frame` returns, without and with every standing."""
    labels = Labels(compare)
    rows = standing_rows([record.spec for record in records], compare, labels)
    names, key, cell = outcome_names(records), cache(natural), _Cells()

    def order(row: tuple[int, bool, dict[str, Any]]) -> tuple[Any, ...]:
        trial, _, columns = row
        record = records[trial]
        return key(columns["workload"]), key(columns["treatment"]), record.spec["seed"], record.id

    rows.sort(key=order)
    # By column: a mapping for each of 10,000 rows takes 50 MB.
    columns: dict[str, list[Any]] = defaultdict(lambda: [math.nan] * len(rows))
    for i, (trial, _, of_spec) in enumerate(rows):
        record = records[trial]
        row = _row(record) | of_spec | {"cell": cell.of(record), "metric": names[trial]}
        for name, value in row.items():
            columns[name][i] = value
    whole = _typed(pd.DataFrame(columns, columns=_columns(columns)))
    del columns
    is_first = np.array([first for _, first, _ in rows], dtype=bool)
    trials = whole.drop(columns=_OF_STANDING)  # shares its memory
    return Frames(trials if is_first.all() else trials[is_first].reset_index(drop=True), whole, labels)


def _row(record: TrialRecord) -> dict[str, Any]:
    """Return the columns of a trial, but for those that its spec alone tells or that depend on all records."""
    spec = record.spec
    row = {key: value for key, value in record.metrics.items() if not key.endswith("_reason")}
    row |= {
        "trial_id": record.id,
        "suite": spec["suite"],
        "status": record.status,
        "phase": spec["phase"],
        "architecture": spec["architecture"]["name"],
        "scheme": spec["scheme"],
        "dataset": spec["dataset"]["name"],
        "seed": spec["seed"],
        "outcome": _outcome(record),
        **_chance(record),
    }
    if tuned_keys(spec):
        row["protocols"] = " ".join(spec.get("protocols", ()))
    for probe in record.probes:
        if probe["kind"] != "scalar":
            continue
        row[f"probe.{probe['name']}"] = probe["value"]
        if "saturated" in probe.get("conditions", {}):
            row[f"probe.{probe['name']}.saturated"] = probe["conditions"]["saturated"]
    return row | {k: v for k, v in record.timing.items() if k.endswith("_seconds")}


class _Cells:
    """The cells of trials: of a suite that tunes without what a search chose, which differs from seed to seed."""

    def __init__(self) -> None:
        self._by_tuned: dict[tuple[str, ...], Once[dict[str, Any], str]] = {}

    def of(self, record: TrialRecord) -> str:
        """Return the hash of a record's cell."""
        tuned = tuple(sorted(tuned_keys(record.spec)))
        if tuned not in self._by_tuned:
            self._by_tuned[tuned] = Once(partial(cell_id, tuned=tuned))
        return self._by_tuned[tuned](record.identity)


def _outcome(record: TrialRecord) -> float | None:
    """Return the value of the primary metric; None for a trial that has no result of training."""
    value: float | None = record.metrics.get(outcome_key(record))
    return value if record.status == "finished" else None


def _chance(record: TrialRecord) -> dict[str, float | None]:
    """Return the outcome's chance level and its standard error."""
    metric = record.task.get("metrics", {}).get(outcome_key(record), {})
    return {"chance": metric.get("chance"), "chance_standard_error": metric.get("chance_standard_error")}


def _columns(names: Collection[str]) -> list[str]:
    found = set(names) - {*_IDENTITY, *_TUNED, *_PAIRING, *_OUTCOME, *_TRAINING}
    sections = [
        *sorted(key for key in found if key.startswith("architecture.")),
        *sorted(key for key in found if key.startswith("initializer.")),
        *sorted(key for key in found if key.startswith("recipe.")),
    ]
    probes = sorted(key for key in found if key.startswith("probe."))
    durations = sorted(key for key in found if key.endswith("_seconds"))
    metrics = sorted(found.difference(sections, probes, durations))
    tuned = [name for name in _TUNED if name in names]
    return [*_IDENTITY, *tuned, *_PAIRING, *sections, *_OUTCOME, *metrics, *_TRAINING, *probes, *durations]


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with numbers, not objects, in columns where every value is missing."""
    first = list(frame.columns).index("outcome")
    for column in frame.columns[first:]:
        if column.endswith(".saturated"):
            frame[column] = frame[column].astype("boolean")
        elif column not in _OF_STANDING:
            frame[column] = pd.to_numeric(frame[column])
    return frame
