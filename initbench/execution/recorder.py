"""What becomes of a record: the ledger first, then MLflow, then the screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from initbench.comparing.labels import tuned_keys
from initbench.errors import InitbenchError
from initbench.execution.progress_file import PLAN_FILE, Asked, ProgressFile, write_plan
from initbench.ledger import RESOLVED_FILE, SUITE_FILE
from initbench.suite.spec import cell_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from initbench.execution.checkpoint_folder import CheckpointFolder
    from initbench.execution.shared_networks import NetworkKeeper
    from initbench.ledger import Ledger, TrialRecord
    from initbench.suite.plan import Plan
    from initbench.suite.spec import TrialSpec
    from initbench.tracking.thread import TrackingThread


class Progress:
    """What the driver tells of its work; the command line draws it. Every method may be left as it is."""

    def begin(self, missing: tuple[TrialSpec, ...], awaited: int = 0) -> None:
        """These trials run now; the others of the plan have a result already.

        Called again where more trials follow from what came of these; so many of the plan's are not known yet.
        """

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


class Round(NamedTuple):
    """What runs now.

    Attributes:
        planned: all trials of the suite that are known, those that are not selected included.
        missing: those that run.
        awaited: how many more there will be.
    """

    planned: tuple[TrialSpec, ...]
    missing: tuple[TrialSpec, ...]
    awaited: int = 0

    @classmethod
    def of(cls, plan: Plan, missing: tuple[TrialSpec, ...]) -> Self:
        """Return the round of these trials of a plan."""
        return cls((*plan.trials, *plan.unselected), missing, plan.awaited)


class Recorder:
    """The executor's observer: each record goes to the ledger first, then to MLflow, then to the screen.

    Args:
        files: the suite's.
        first: what runs first.
        records: what the ledger has, by id.
        ledger: where records go; its folder has the suite's name.
        uri: of MLflow.
        progress: is told of everything.
        asked: of the command line; None leaves ``plan.json`` as it is.
        damaged: the trials among `missing` whose files are no records.

    Attributes:
        statuses: of each trial that has a record, by id.
        failure: why the ledger could not be written; None while it can be.
        checkpoints: of the trials; None where none are kept.
    """

    def __init__(
        self,
        files: SuiteFiles,
        first: Round,
        records: Mapping[str, TrialRecord],
        ledger: Ledger,
        uri: str,
        progress: Progress,
        asked: Asked | None = None,
        damaged: Iterable[str] = (),
        checkpoints: CheckpointFolder | None = None,
    ) -> None:
        self.files = files
        self.round = first
        self.records = dict(records)
        self.labels = Labels(first.planned, records.values())
        self.ledger = ledger
        self.uri = uri
        self.progress = progress
        self.asked = asked
        self.damaged = tuple(damaged)
        self.statuses: dict[str, str] = {trial: record.status for trial, record in records.items()}
        self.failure: InitbenchError | None = None
        self.tracking: TrackingThread | None = None
        self.file = ProgressFile(ledger, self.name)
        self.networks: NetworkKeeper | None = None
        self.checkpoints = checkpoints
        self.told: set[str] = set()

    def ready(self) -> None:
        """Write the first bytes: nothing can be wrong with the request any more."""
        if self.tracking is None:
            self._begin()
        if self.checkpoints:
            for note in self.checkpoints.open(self.round.missing, self.records):
                self.progress.note(note)
        if self.round.missing:
            self.file.begin(self.round.missing)
            self.progress.begin(self.round.missing, self.round.awaited)

    def _begin(self) -> None:
        """Write what lies beside the records, and pass on to MLflow what a killed driver recorded and did not."""
        from initbench.tracking.level import Level
        from initbench.tracking.thread import TrackingThread

        self.ledger.write_suite(*self.files)
        self._write_plan()
        for trial in self.damaged:
            aside = self.ledger.set_aside(trial)
            self.progress.note(f"what was at {self.ledger.path(trial).name} is kept as {aside.name if aside else None}")
        self._label_anew()
        self.tracking = TrackingThread(self.ledger.folder, self.uri, self.ledger.folder.name)
        if not Level(self.ledger, self.uri).holds(self._labels_of(self.records.values())):
            for record in self.records.values():
                self.tracking.put(record, self.labels.of(record))

    def _labels_of(self, records: Iterable[TrialRecord]) -> dict[str, dict[str, str]]:
        return {record.id: self.labels.of(record) for record in records}

    def _write_plan(self) -> None:
        if self.asked is not None:
            write_plan(self.ledger, self.asked, self.round.planned, self.round.awaited)

    def go_on(self, following: Round, records: Mapping[str, TrialRecord]) -> None:
        """Take what runs next.

        Args:
            following: the trials.
            records: what the ledger has by now, by id.
        """
        self.round, self.records = following, dict(records)
        self.labels = Labels(following.planned, records.values())
        self._write_plan()
        for trial in self._label_anew():
            if self.tracking:
                self.tracking.put(self.records[trial], self.labels.of(self.records[trial]))

    def _label_anew(self) -> list[str]:
        """Give the records that are there the labels that the suite gives them as it stands now; return the changed."""
        specs = {spec.id: spec for spec in self.round.planned}
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
                changed.append(trial)
        return changed

    def name(self, spec: TrialSpec) -> str:
        """Return how a trial is called among all that are known now."""
        return self.labels.name(spec)

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
        if self.networks:
            self.networks.finished(record.id, record.timing)
        if self.checkpoints:
            self.checkpoints.ended(record)
        if self.tracking:
            self.tracking.put(record, self.labels.of(record))
        self.progress.finished(record)

    def note(self, message: str) -> None:
        """See `Observer`; what is so for several trials is told once."""
        if message not in self.told:
            self.told.add(message)
            self.progress.note(message)

    def check(self) -> None:
        """Check that the ledger has what was recorded, and write again what lies beside the records if it is gone.

        Raises:
            InitbenchError: records are gone, or the folder is another one.
        """
        self.ledger.check_complete(self.statuses)
        if not all((self.ledger.folder / name).exists() for name in (SUITE_FILE, RESOLVED_FILE, PLAN_FILE)):
            self.ledger.write_suite(*self.files)
            self._write_plan()

    @property
    def waiting(self) -> int:
        """How many trials wait to be written to MLflow."""
        return self.tracking.waiting if self.tracking else 0

    def close(self, deadline: float | None = None) -> None:
        """Pass on the report, and wait until MLflow has everything, labelled as the report and `sync` label it.

        Args:
            deadline: see `TrackingThread.close_by`; None waits as long as MLflow takes what it lacks.
        """
        from initbench.tracking.level import Level

        if self.checkpoints:
            self.checkpoints.close()
        self.file.end("finished")
        if self.tracking:
            is_late = deadline is not None and time.monotonic() >= deadline
            records = [] if is_late else list(self.ledger.records([]) if self.round.missing else self.records.values())
            before, self.labels = self.labels, Labels((), records)
            for record in records:
                if self.labels.of(record) != before.of(record):
                    self.tracking.put(record, self.labels.of(record))
            self.tracking.put_suite()
            problems = self.tracking.close() if deadline is None else self.tracking.close_by(deadline)
            for problem in problems:
                self.progress.note(problem)
            if not problems:
                Level(self.ledger, self.uri).keep(self._labels_of(records))

    def abandon(self, error: BaseException) -> None:
        """End at once; the next run passes on what MLflow lacks."""
        if self.checkpoints:
            self.checkpoints.close()
        if self.tracking:
            told = "interrupted" if isinstance(error, KeyboardInterrupt) else " ".join(str(error).split())
            self.file.end(told or type(error).__name__)
            self.tracking.abandon()


def _superseded(records: Mapping[str, TrialRecord], planned: Mapping[str, TrialSpec]) -> set[str]:
    """Return the trials of searches, and those that they chose, that the suite as it stands plans otherwise; by id.

    That is so where another range is searched, where a search that was tried anew chooses something else, and where
    nothing is searched any more. Trials of cells that the suite has no more are not meant.
    """
    tuned = {i: tuned_keys(record.spec) for i, record in records.items() if i not in planned}
    found, places = set[str](), dict[frozenset[str], set[tuple[str, Any]]]()
    for trial, keys in tuned.items():
        if not keys:
            continue
        every = frozenset(keys).union(*{spec.tuned for spec in planned.values()})
        if every not in places:
            places[every] = {_place(spec.identity, every) for spec in planned.values()}
        if _place(records[trial].identity, every) in places[every]:
            found.add(trial)
    return found


def _place(identity: Mapping[str, Any], tuned: Collection[str]) -> tuple[str, Any]:
    return cell_id({**identity, "phase": "final"}, tuned), identity["seed"]
