"""What becomes of a record: the ledger first, then MLflow, then the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    ) -> None:
        self.files = files
        self.planned = tuple(planned)
        self.missing = missing
        self.records = dict(records)
        self.labels = Labels(self.planned, records.values())
        self.ledger = ledger
        self.uri = uri
        self.progress = progress
        self.tracking: TrackingThread | None = None

    def ready(self) -> None:
        """Write the first bytes: nothing can be wrong with the request any more."""
        from initbench.tracking.thread import TrackingThread

        self.ledger.write_suite(*self.files)
        self._label_anew()
        self.tracking = TrackingThread(self.ledger.folder, self.uri, self.ledger.folder.name)
        for record in self.records.values():  # what a killed driver recorded and did not pass on
            self.tracking.put(record, self.labels.of(record))
        if self.missing:
            self.progress.begin(self.missing)

    def _label_anew(self) -> None:
        """Give the records that are there the labels that the suite gives them as it stands now."""
        for spec in self.planned:
            record = self.records.get(spec.id)
            if record is not None and record.labelled_as(spec) != record:
                self.records[spec.id] = record.labelled_as(spec)
                self.ledger.write(self.records[spec.id])

    def started(self, spec: TrialSpec) -> None:
        """See `Observer`."""
        self.progress.started(spec)

    def progressed(self, spec: TrialSpec, fraction: float) -> None:
        """See `Observer`."""
        self.progress.progressed(spec, fraction)

    def finished(self, record: TrialRecord) -> None:
        """See `Observer`."""
        self.ledger.write(record)
        if self.tracking:
            self.tracking.put(record, self.labels.of(record))
        self.progress.finished(record)

    def note(self, message: str) -> None:
        """See `Observer`."""
        self.progress.note(message)

    def close(self, timeout: float = 60.0) -> None:
        """Pass on the report, and wait until MLflow has everything, labelled as the report and `sync` label it.

        Args:
            timeout: see `TrackingThread.close`.
        """
        if self.tracking:
            records = list(self.ledger.records() if self.missing else self.records.values())
            labels = Labels((), records)
            for record in records:
                if labels.of(record) != self.labels.of(record):
                    self.tracking.put(record, labels.of(record))
            self.tracking.put_suite()
            for problem in self.tracking.close(timeout):
                self.progress.note(problem)

    def abandon(self) -> None:
        """End at once; the next run passes on what MLflow lacks."""
        if self.tracking:
            self.tracking.abandon()
