"""Where each record goes: the ledger, then MLflow, then the screen."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from initbench.comparing.labels import tuned_keys
from initbench.errors import InitbenchError
from initbench.execution.checkpoint_folder import CheckpointFolder
from initbench.execution.executor import Observer
from initbench.execution.progress_file import PLAN_FILE, Asked, ProgressFile, write_plan
from initbench.execution.shared_networks import NetworkKeeper
from initbench.ledger import RESOLVED_FILE, SUITE_FILE, Ledger, TrialRecord
from initbench.suite.plan import Plan
from initbench.suite.spec import TrialSpec, cell_id
from initbench.tracking import thread
from initbench.tracking.contents import trial_labels
from initbench.tracking.level import Level


class Progress(Observer):
    """The events of the driver, which the command line displays. Records of finished trials are already stored."""

    def begin(self, missing: tuple[TrialSpec, ...], have: int, awaited: int) -> None:
        """These trials run now; `have` others of the plan have a result already, and `awaited` are still unknown.

        It is called again when more trials follow from the results.
        """

    def end(self) -> None:
        pass


def labels_by_id(trials: Iterable[TrialSpec], records: Iterable[TrialRecord] = ()) -> dict[str, dict[str, str]]:
    """Return the labels of a suite's trials, which depend on what varies among all of them.

    The ledger may have records of trials that the suite no longer plans.
    """
    specs = {record.id: record.spec for record in records}
    specs |= {trial.id: trial.model_dump(mode="json") for trial in trials}
    return dict(zip(specs, trial_labels(list(specs.values())), strict=True))


class Recorder(Observer):
    """The executor's observer: each record goes to the ledger, then to MLflow, then to the screen."""

    def __init__(
        self,
        plan: Plan,
        missing: tuple[TrialSpec, ...],
        records: Mapping[str, TrialRecord],
        ledger: Ledger,
        suite_files: tuple[str, Mapping[str, Any]],
        uri: str,
        progress: Progress,
        asked: Asked | None = None,
        checkpoints: CheckpointFolder | None = None,
        gpus: float = 0.0,
    ) -> None:
        self._take(plan, missing, records)
        self.ledger = ledger
        self.suite_files = suite_files  # the arguments of `Ledger.write_suite`
        self.uri = uri
        self.progress = progress
        self.asked = asked  # None keeps plan.json unchanged
        self.statuses = {trial: record.status for trial, record in records.items()}
        self.failure: InitbenchError | None = None  # why the ledger could not be written
        self.tracking: thread.TrackingThread | None = None
        self.file = ProgressFile(ledger)
        self.networks: NetworkKeeper | None = None
        self.checkpoints = checkpoints
        self.gpus = gpus
        self.told: set[str] = set()

    def _take(self, plan: Plan, missing: tuple[TrialSpec, ...], records: Mapping[str, TrialRecord]) -> None:
        self.plan, self.missing, self.records = plan, missing, dict(records)
        self.planned = (*plan.trials, *plan.unselected)
        self.labels = labels_by_id(self.planned, records.values())

    def ready(self) -> None:
        """Write the first bytes: all checks of the request have passed."""
        if self.tracking is None:
            self._begin()
        for trial in self.missing:
            known = trial.id in self.records or trial.id in self.statuses
            if not known and (aside := self.ledger.set_aside(trial.id)):  # it is not a record
                self.note(f"the unreadable file {self.ledger.path(trial.id).name} is kept as {aside.name}")
        if self.checkpoints:
            for note in self.checkpoints.open(self.missing, self.records):
                self.note(note)
        if self.missing:
            self.file.begin(self.missing)
            self.progress.begin(self.missing, len(self.plan.trials) - len(self.missing), self.plan.awaited)

    def _begin(self) -> None:
        """Write the files beside the records, and pass on to MLflow the records that a killed driver did not."""
        self.ledger.write_suite(*self.suite_files)
        self._write_plan()
        self._label_anew()
        self.tracking = thread.TrackingThread(self.ledger.folder, self.uri, self.planned[0].suite)
        records = self.records.values()
        if not Level(self.ledger, self.uri).holds({record.id: self.labels[record.id] for record in records}):
            self._track(records)

    def _track(self, records: Iterable[TrialRecord]) -> None:
        if self.tracking:
            for record in records:
                self.tracking.put(record, self.labels[record.id])

    def _write_plan(self) -> None:
        if self.asked is not None:
            write_plan(self.ledger, self.asked, self.planned, self.plan.awaited)

    def go_on(self, plan: Plan, missing: tuple[TrialSpec, ...], records: Mapping[str, TrialRecord]) -> None:
        self._take(plan, missing, records)
        self._write_plan()
        self._track(self._label_anew())

    def _label_anew(self) -> list[TrialRecord]:
        """Give existing records the labels of the current suite; return the changed records."""
        specs = {spec.id: spec for spec in self.planned}
        superseded = _superseded(self.records, specs)
        changed = []
        for trial, record in self.records.items():
            if trial in specs:
                labelled = record.labelled_as(specs[trial])
            elif trial in superseded:
                labelled = record.without_labels_of_tuning()
            else:
                continue
            if labelled != record:
                self.ledger.write(labelled)
                self.records[trial] = labelled
                changed.append(labelled)
        return changed

    def started(self, spec: TrialSpec) -> None:
        labels = self.labels[spec.id]
        self.file.started(spec, f"{labels['initializer']} · {labels['place']} · seed {spec.seed}")
        self.progress.started(spec)

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        self.file.progressed(spec, fraction)
        self.progress.progressed(spec, fraction)

    def finished(self, record: TrialRecord) -> None:
        if self.gpus:
            record = replace(record, environment=record.environment | {"gpu_share": self.gpus})
        try:
            self.ledger.write(record)
        except InitbenchError as error:
            self.failure = self.failure or error  # Ray would pass it on as another error
            raise
        self.statuses[record.id] = record.status
        self.file.finished(record)
        if self.networks:
            self.networks.finished(record.id, record.timing)
        if self.checkpoints:
            self.checkpoints.ended(record)
        self._track([record])
        self.progress.finished(record)

    def note(self, message: str) -> None:
        """Show a note that applies to several trials once."""
        if message not in self.told:
            self.told.add(message)
            self.progress.note(message)

    def check(self) -> None:
        """Check that the ledger has all records, and write missing files beside them again."""
        self.ledger.check_complete(self.statuses)
        if not all((self.ledger.folder / name).exists() for name in (SUITE_FILE, RESOLVED_FILE, PLAN_FILE)):
            self.ledger.write_suite(*self.suite_files)
            self._write_plan()

    def close(self, deadline: float | None = None) -> None:
        """Pass on the report, and wait until MLflow has everything, with the labels of the report and of `sync`."""
        if self.checkpoints:
            self.checkpoints.close()
        if self.tracking:
            self.file.end("finished")
            is_late = deadline is not None and time.monotonic() >= deadline
            records = [] if is_late else list(self.ledger.records([]) if self.missing else self.records.values())
            before, self.labels = self.labels, labels_by_id((), records)
            self._track(record for record in records if self.labels[record.id] != before.get(record.id))
            self.tracking.put_suite()
            problems = self.tracking.close() if deadline is None else self.tracking.close_by(deadline)
            for problem in problems:
                self.progress.note(problem)
            if not problems:
                Level(self.ledger, self.uri).keep(self.labels)

    def abandon(self, error: BaseException) -> None:
        """End at once; the next run passes on the missing records to MLflow."""
        if self.checkpoints:
            self.checkpoints.close()
        if self.tracking:
            told = "interrupted" if isinstance(error, KeyboardInterrupt) else " ".join(str(error).split())
            self.file.end(told or type(error).__name__)
            self.tracking.abandon()


def _superseded(records: Mapping[str, TrialRecord], planned: Mapping[str, TrialSpec]) -> set[str]:
    """Return the ids of search trials, and of trials chosen by them, that the current suite no longer plans.

    This happens if the suite searches another range or nothing, or if a search that was tried again chooses something
    else. Trials of cells that the suite no longer has are not included.
    """
    tuned = {i: tuned_keys(record.spec) for i, record in records.items() if i not in planned}
    superseded, cells = set[str](), dict[frozenset[str], set[tuple[str, Any]]]()
    for trial, keys in tuned.items():
        if not keys:
            continue
        every = frozenset(keys).union(*{spec.tuned for spec in planned.values()})
        if every not in cells:
            cells[every] = {_cell_and_seed(spec.identity, every) for spec in planned.values()}
        if _cell_and_seed(records[trial].identity, every) in cells[every]:
            superseded.add(trial)
    return superseded


def _cell_and_seed(identity: Mapping[str, Any], tuned: Collection[str]) -> tuple[str, Any]:
    return cell_id({**identity, "phase": "final"}, tuned), identity["seed"]
