"""What becomes of a record: the ledger first, then MLflow, then the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.errors import InitbenchError
from initbench.execution.progress_file import Asked, ProgressFile, write_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.ledger import Ledger, TrialRecord
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
        """Return the labels of a record, see `initbench.tracking.contents.trial_labels`."""
        return self._labels[record.id]

    def name(self, spec: TrialSpec) -> str:
        """Return what tells a trial from the others, in one line."""
        labels = self._labels[spec.id]
        return f"{labels['initializer']} · {labels['place']} · seed {spec.seed}"


class SuiteFiles(NamedTuple):
    """What a ledger keeps of a suite, see `Ledger.write_suite`."""

    text: str
    resolved: Mapping[str, Any]


class Recorder:
    """The executor's observer: each record goes to the ledger first, then to MLflow, then to the screen.

    Args:
        files: the suite's.
        planned: all its trials, those that are not selected included.
        missing: those that run now.
        records: what the ledger has, by id.
        ledger: where records go; its folder has the suite's name.
        uri: of MLflow.
        progress: is told of everything.
        asked: of the command line; None leaves ``plan.json`` as it is.
        damaged: the trials among `missing` whose files are no records.

    Attributes:
        statuses: of each trial that has a record, by id.
        failure: why the ledger could not be written; None while it can be.
    """

    def __init__(
        self,
        files: SuiteFiles,
        planned: Iterable[TrialSpec],
        missing: tuple[TrialSpec, ...],
        records: Mapping[str, TrialRecord],
        ledger: Ledger,
        uri: str,
        progress: Progress,
        asked: Asked | None = None,
        damaged: Iterable[str] = (),
    ) -> None:
        self.files = files
        self.planned = tuple(planned)
        self.missing = missing
        self.records = records
        self.labels = Labels(self.planned, records.values())
        self.ledger = ledger
        self.uri = uri
        self.progress = progress
        self.asked = asked
        self.damaged = tuple(damaged)
        self.statuses: dict[str, str] = {trial: record.status for trial, record in records.items()}
        self.failure: InitbenchError | None = None
        self.tracking: TrackingThread | None = None
        self.file = ProgressFile(ledger, self.labels.name)

    def ready(self) -> None:
        """Write the first bytes: nothing can be wrong with the request any more."""
        from initbench.tracking.thread import TrackingThread

        self.ledger.write_suite(*self.files)
        if self.asked is not None:
            write_plan(self.ledger, self.asked, self.planned)
        for trial in self.damaged:
            aside = self.ledger.set_aside(trial)
            self.progress.note(f"what was at {self.ledger.path(trial).name} is kept as {aside.name if aside else None}")
        records = self._labelled_anew()
        self.tracking = TrackingThread(self.ledger.folder, self.uri, self.ledger.folder.name)
        for record in records:  # what a killed driver recorded and did not pass on
            self.tracking.put(record, self.labels.of(record))
        if self.missing:
            self.file.begin(self.missing)
            self.progress.begin(self.missing)

    def _labelled_anew(self) -> list[TrialRecord]:
        """Return the records that are there, with the labels that the suite gives them as it stands now."""
        specs = {spec.id: spec for spec in self.planned}
        records = []
        for trial, record in self.records.items():
            labelled = record.labelled_as(specs[trial]) if trial in specs else record
            if labelled != record:
                self.ledger.write(labelled)
            records.append(labelled)
        return records

    def started(self, spec: TrialSpec) -> None:
        """See `Observer`."""
        self.file.started(spec)
        self.progress.started(spec)

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """See `Observer`."""
        self.file.progressed(spec, fraction)
        self.progress.progressed(spec, fraction)

    def finished(self, record: TrialRecord) -> None:
        """See `Observer`.

        Raises:
            InitbenchError: the ledger cannot be written; the run ends.
        """
        try:
            self.ledger.write(record)
        except InitbenchError as error:
            self.failure = self.failure or error  # Ray would pass it on as another one
            raise
        self.statuses[record.id] = record.status
        self.file.finished(record)
        if self.tracking:
            self.tracking.put(record, self.labels.of(record))
        self.progress.finished(record)

    def close(self) -> None:
        """Pass on the report, and wait until MLflow has everything, labelled as the report and `sync` label it."""
        self.file.end("finished")
        if self.tracking:
            records = list(self.ledger.records([]))
            labels = Labels((), records)
            for record in records:
                if labels.of(record) != self.labels.of(record):
                    self.tracking.put(record, labels.of(record))
            self.tracking.put_suite()
            for problem in self.tracking.close():
                self.progress.note(problem)

    def abandon(self, error: BaseException) -> None:
        """End at once; the next run passes on what MLflow lacks."""
        if self.tracking:
            told = "interrupted" if isinstance(error, KeyboardInterrupt) else " ".join(str(error).split())
            self.file.end(told or type(error).__name__)
            self.tracking.abandon()
