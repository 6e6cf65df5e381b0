"""The driver: plan → execute → ledger → MLflow → report. It alone writes.

Everything that can be wrong with the request is checked before the first byte is written.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import DataError, InitbenchError
from initbench.execution.environment import differences, environment
from initbench.execution.executor import Executor, Job
from initbench.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from initbench.ledger import TrialRecord
    from initbench.plugins import PluginFile
    from initbench.suite.load import Suite
    from initbench.suite.plan import Plan
    from initbench.suite.spec import TrialSpec
    from initbench.tracking.thread import TrackingThread


class Progress:
    """What the driver tells of its work; the command line draws it. Every method may be left as it is."""

    def begin(self, missing: tuple[TrialSpec, ...]) -> None:
        """These trials run now; the others of the plan have a result already."""

    def started(self, spec: TrialSpec) -> None:
        """A trial was given to a worker."""

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """This fraction of a trial's training is done."""

    def finished(self, record: TrialRecord) -> None:
        """A trial has ended and its record is in the ledger."""

    def note(self, message: str) -> None:
        """Something that the user should know, in one line."""

    def end(self) -> None:
        """No trial runs any more."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        folder: the suite's folder.
        statuses: how many of the plan's trials stand at each status, what ran before included.
        ran: how many trials ran now.
        seconds: the wall time of the whole run.
        report: the report's page.
        tracking_uri: where MLflow has the runs.
    """

    folder: Path
    statuses: dict[str, int]
    ran: int
    seconds: float
    report: Path
    tracking_uri: str

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain data."""
        return {
            "folder": str(self.folder),
            "statuses": self.statuses,
            "ran": self.ran,
            "seconds": round(self.seconds, 3),
            "report": str(self.report),
            "tracking_uri": self.tracking_uri,
        }


def run_suite(
    suite: Suite,
    plan: Plan,
    folder: Path,
    execute: Executor,
    *,
    tracking_uri: str | None = None,
    plugins: tuple[PluginFile, ...] = (),
    workers: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run what the ledger does not have, record it, and write the report.

    Args:
        suite: for its name, file and resources.
        plan: its trials.
        folder: the suite's folder, such as ``runs/quickstart``.
        execute: the executor.
        tracking_uri: of MLflow; None for ``MLFLOW_TRACKING_URI``, else a SQLite file in the folder.
        plugins: files that workers import.
        workers: most trials at a time.
        progress: is told what happens.

    Raises:
        InitbenchError: nothing to run, data or tracking server missing, or another driver at work here.
        KeyboardInterrupt: as it comes; what has finished is kept.
    """
    from initbench.reporting.report import write_report
    from initbench.tracking.uri import check_tracking_uri, resolve_tracking_uri

    begun = time.monotonic()
    progress = progress or Progress()
    ledger = Ledger(folder)
    uri = resolve_tracking_uri(folder, tracking_uri)
    records = {record.id: record for record in ledger.records()}
    missing = plan.missing({i: r.status for i, r in records.items()})
    if not plan.trials:
        path = suite.document.path
        raise InitbenchError(f"{path}: no trial can run; `initbench plan {path}` says why")
    if missing:
        check_data(suite, missing)
    check_tracking_uri(uri)
    lock = ledger.lock()
    recorder = _Recorder(suite, Labels((*plan.trials, *plan.unselected), records.values()), ledger, uri, progress)
    try:
        _tell_what_is_there(suite, plan, records, progress)
        if missing:
            recorder.missing = missing
            try:
                execute(Job(missing, suite.resources.cpus, suite.resources.gpus, plugins, workers), recorder)
            finally:
                progress.end()
        else:
            recorder.ready()
        report = write_report(folder)
        recorder.close(report)
        now = ledger.statuses()
    except BaseException:
        recorder.abandon()
        raise
    finally:
        lock.release()
        ledger.remove_if_empty()
    statuses = Counter(now.get(trial.id, "missing") for trial in plan.trials)
    return Outcome(folder, dict(statuses), len(missing), time.monotonic() - begun, report, uri)


def sync_folder(folder: Path, tracking_uri: str | None = None) -> dict[str, int]:
    """Write to MLflow what a suite's folder has and MLflow lacks.

    Args:
        folder: the suite's folder.
        tracking_uri: as for `run_suite`.

    Returns:
        How many runs were written, replaced, relabelled and left unchanged.

    Raises:
        InitbenchError: the tracking server does not answer, or a run of the suite is at work here.
    """
    from initbench.tracking.mlflow import MlflowTracker, sync
    from initbench.tracking.uri import check_tracking_uri, resolve_tracking_uri

    ledger = Ledger(folder)
    first = next(ledger.records(), None)
    if first is None:
        raise InitbenchError(f"{folder}: has no trial records; initbench run SUITE makes them")
    uri = resolve_tracking_uri(folder, tracking_uri)
    check_tracking_uri(uri)
    lock = ledger.lock()
    try:
        tracker = MlflowTracker(folder, uri, first.spec["suite"])
        counts = sync(ledger, tracker)
        tracker.log_suite(folder / "suite.yaml", folder / "report")
    finally:
        lock.release()
    return {str(outcome): number for outcome, number in counts.items()}


def check_data(suite: Suite, trials: Iterable[TrialSpec]) -> None:
    """Read every dataset once, downloading what is missing, before anything is written.

    Raises:
        SuiteError: an argument that the dataset refuses.
        DataError: the data cannot be had.
    """
    from initbench.data.load import load_dataset
    from initbench.errors import ArgumentError

    used = {trial.dataset.model_dump_json(): trial.dataset for trial in trials}
    for dataset in used.values():
        key = ("dataset",)
        try:
            load_dataset(dataset.name, dataset.arguments)
        except ArgumentError as error:
            raise suite.document.argument_error(key, error) from error
        except DataError as error:
            raise suite.document.error(key, str(error)) from error


class Labels:
    """The labels of a suite's trials, by id; they depend on what varies among all of them.

    Args:
        trials: of the plan.
        records: of the ledger, which may have trials that the suite no longer plans.
    """

    def __init__(self, trials: Iterable[TrialSpec], records: Iterable[TrialRecord] = ()) -> None:
        from initbench.tracking.contents import trial_labels

        specs = {record.id: record.spec for record in records}
        specs |= {trial.id: trial.model_dump(mode="json") for trial in trials}
        self._labels = dict(zip(specs, trial_labels(list(specs.values())), strict=True))

    def of(self, record: TrialRecord) -> dict[str, str]:
        """Return the labels of a record: ``architecture``, ``initializer`` and ``dataset``."""
        return self._labels[record.id]


class _Recorder:
    """The executor's observer: each record goes to the ledger first, then to MLflow, then to the screen."""

    def __init__(self, suite: Suite, labels: Labels, ledger: Ledger, uri: str, progress: Progress) -> None:
        self.suite = suite
        self.ledger = ledger
        self.uri = uri
        self.progress = progress
        self.labels = labels
        self.missing: tuple[TrialSpec, ...] = ()
        self.tracking: TrackingThread | None = None

    def ready(self) -> None:
        """Write the first bytes: nothing can be wrong with the request any more."""
        from initbench.tracking.thread import TrackingThread

        self.ledger.folder.joinpath("suite.yaml").write_text(self.suite.document.text, encoding="utf-8")
        self.tracking = TrackingThread(self.ledger.folder, self.uri, self.suite.name)
        for record in self.ledger.records():  # what a killed driver recorded and did not pass on
            self.tracking.put(record, self.labels.of(record))
        if self.missing:
            self.progress.begin(self.missing)

    def started(self, spec: TrialSpec) -> None:
        self.progress.started(spec)

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        self.progress.progressed(spec, fraction)

    def finished(self, record: TrialRecord) -> None:
        self.ledger.write(record)
        if self.tracking:
            self.tracking.put(record, self.labels.of(record))
        self.progress.finished(record)

    def close(self, report: Path) -> None:
        """Pass on the report, and wait until MLflow has everything."""
        if self.tracking:
            self.tracking.put_suite(self.ledger.folder / "suite.yaml", report.parent)
            for problem in self.tracking.close():
                self.progress.note(problem)

    def abandon(self) -> None:
        """End at once; the next run passes on what MLflow lacks."""
        if self.tracking:
            self.tracking.abandon()


def _tell_what_is_there(suite: Suite, plan: Plan, records: dict[str, TrialRecord], progress: Progress) -> None:
    planned = {trial.id for trial in (*plan.trials, *plan.unselected)}
    others = len([i for i in records if i not in planned])
    if others:
        progress.note(f"the ledger also has {others} trials that this suite does not plan; the report shows them too")
    if plan.incompatible:
        progress.note(
            f"{len(plan.incompatible)} pairs are incompatible; `initbench plan {suite.document.path}` says why"
        )
    device = "cuda" if suite.resources.gpus else "cpu"
    done = next((r for r in records.values() if r.id in planned and r.environment), None)
    changed = differences(done.environment, environment(device)) if done and device == "cpu" else []
    if changed:
        progress.note(f"finished trials ran elsewhere ({'; '.join(changed)}): numbers need not be bitwise comparable")
