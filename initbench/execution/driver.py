"""The driver: plan → execute → ledger → MLflow → report. It alone writes.

Everything that can be wrong with the request is checked before the first byte is written.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import counted
from initbench.errors import SuiteError
from initbench.execution.checkpoint_folder import CheckpointFolder
from initbench.execution.executor import Executor, Job
from initbench.execution.limits import Limits
from initbench.execution.preflight import notes
from initbench.execution.recorder import Progress, Recorder, Round, SuiteFiles
from initbench.execution.searched import searched
from initbench.execution.shared_networks import NetworkKeeper
from initbench.ledger import Ledger
from initbench.reporting.resolved import incompatible_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from initbench.execution.progress_file import Asked
    from initbench.ledger import TrialRecord
    from initbench.plugins import PluginFile
    from initbench.suite.load import Suite
    from initbench.suite.plan import Plan
    from initbench.suite.spec import TrialSpec
    from initbench.suite.tuning import Searched

    Replan = Callable[[Mapping[str, Searched]], Plan]

_GB = 1e9
# Of the report and MLflow. SLURM kills 30 seconds after SIGTERM (KillWait), spot markets 30 to 120; Ray takes up to 6.
_SECONDS_TO_WIND_UP = 5.0
_MOST_WAITING = 100  # trials that MLflow takes in some seconds


@dataclass(frozen=True)
class RunSummary:
    """What a run came to.

    Attributes:
        folder: the suite's folder.
        statuses: how many of the plan's trials stand at each status, what ran before included.
        ran: how many trials ran now.
        seconds: the wall time of the whole run.
        report: the report's page.
        sentences: what happened, as the page says it first.
        tracking_uri: where MLflow has the runs, without its secrets.
    """

    folder: Path
    statuses: dict[str, int]
    ran: int
    seconds: float
    report: Path
    sentences: tuple[str, ...]
    tracking_uri: str

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain data."""
        return {
            "folder": str(self.folder),
            "statuses": self.statuses,
            "ran": self.ran,
            "seconds": round(self.seconds, 3),
            "report": str(self.report),
            "sentences": list(self.sentences),
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
    asked: Asked | None = None,
    replan: Replan | None = None,
) -> RunSummary:
    """Run what the ledger does not have, record it, and write the report.

    A suite that tunes is planned again when its searches have results: its final trials follow from them.

    Args:
        suite: for its name, file, resources and what reports need of it.
        plan: its trials.
        folder: the suite's folder, such as ``runs/quickstart``.
        execute: the executor.
        tracking_uri: of MLflow; None for ``MLFLOW_TRACKING_URI``, else a SQLite file in the folder.
        plugins: files that workers import.
        workers: most trials at a time.
        progress: is told what happens.
        asked: of the command line, for `initbench retry`; None leaves what the folder says of an earlier run.
        replan: of a suite that tunes, gives its plan from what its search trials came to.

    Raises:
        InitbenchError: nothing to run, data missing, a tracking URI that cannot be right, another driver at work here,
            a disk that is full, or a folder that was moved, emptied or removed meanwhile; what has finished is kept.
        LedgerError: the folder has records of another version's schema alone.
        KeyboardInterrupt: as it comes; what has finished is kept.
    """
    from initbench.tracking.uri import StoreUnreachableError, check_tracking_uri, resolve_tracking_uri, shown_uri

    begun = time.monotonic()
    progress = progress or Progress()
    ledger = Ledger(folder)
    uri = resolve_tracking_uri(folder, tracking_uri)
    if not plan.trials:
        raise SuiteError(": ".join(filter(None, ["no trial can run", plan.reasons])), suite.document.path)
    try:
        check_tracking_uri(uri)
    except StoreUnreachableError as error:
        progress.note(f"{error}; the trials are kept in the ledger, and initbench sync {folder} passes them on")
    with ledger.lock():
        skipped: list[str] = []
        records = {record.id: record for record in ledger.records(skipped)}
        if replan is not None:
            plan = replan(searched(records.values()))
        missing = plan.missing(_statuses(records))
        for note in notes(suite, plan, missing, records, skipped):
            progress.note(note)
        damaged = [trial.id for trial in missing if trial.id not in records and ledger.path(trial.id).exists()]
        resolved = suite.resolved() | {"incompatible": incompatible_entries(plan.refused)}
        files = SuiteFiles(_text(suite), resolved)
        checkpoints = CheckpointFolder.of(suite, folder)
        first = Round.of(plan, missing)
        recorder = Recorder(files, first, records, ledger, uri, progress, asked, damaged, checkpoints)
        runner = _Runner(suite, execute, recorder, Job(missing, plugins=plugins, workers=workers), replan)
        try:
            plan = runner.run(plan)
            recorder.check()
            from initbench.reporting.report import write_report

            written = write_report(folder)
            recorder.close()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                _wind_up(recorder, folder)
            recorder.abandon(recorder.failure or error)
            if recorder.failure is not None and isinstance(error, Exception):
                raise recorder.failure from None
            raise
    statuses = Counter(recorder.statuses.get(trial.id, "missing") for trial in plan.trials)
    if plan.awaited:
        statuses["missing"] += plan.awaited
        trials = f"{counted(plan.awaited, 'final trial')} cannot be known while trials of a search fail"
        progress.note(f"{trials}; to try these again: initbench retry {folder} --failed")
    sentences = tuple(str(sentence) for sentence in written.sentences)
    seconds = time.monotonic() - begun
    return RunSummary(folder, dict(statuses), len(runner.ran), seconds, written.page, sentences, shown_uri(uri))


class _Runner:
    """Runs what is missing; of a suite that tunes the searches first, and then what follows from them.

    Attributes:
        ran: the ids of what has run.

    Args:
        suite: gives the resources.
        execute: the executor.
        recorder: is told, and knows what runs first.
        job: what all rounds have in common.
        replan: see `run_suite`.
    """

    def __init__(self, suite: Suite, execute: Executor, recorder: Recorder, job: Job, replan: Replan | None) -> None:
        self.suite, self.execute, self.recorder, self.job, self.replan = suite, execute, recorder, job, replan
        self.ran: set[str] = set()

    def run(self, plan: Plan) -> Plan:
        """Run what is missing of a plan; return the plan, of a suite that tunes as it is then."""
        recorder = self.recorder
        if not recorder.round.missing:
            recorder.ready()
        while missing := recorder.round.missing:
            self._run_round(missing)
            if self.replan is None:
                break
            records = {record.id: record for record in recorder.ledger.records([])}
            plan = self.replan(searched(records.values()))
            # One that has failed now is tried again by the next run.
            left = tuple(trial for trial in plan.missing(recorder.statuses) if trial.id not in self.ran)
            recorder.go_on(Round.of(plan, left), records)
        return plan

    def _run_round(self, missing: tuple[TrialSpec, ...]) -> None:
        resources, recorder = self.suite.resources, self.recorder
        keeper = NetworkKeeper(recorder.ledger.folder, missing, resources.shared_networks_gb * _GB)
        recorder.networks = keeper
        if keeper.problem is not None:
            recorder.note(keeper.problem)
        job = replace(
            self.job,
            trials=missing,
            cpus=_cpus(self.suite, missing),
            gpus=resources.gpus,
            limits=Limits(resources.minutes, resources.memory_gb),
            networks=keeper.networks,
            checkpoints=None if recorder.checkpoints is None else recorder.checkpoints.settings,
        )
        try:
            self.execute(job, recorder)
        finally:
            recorder.progress.end()
            keeper.close()
        self.ran |= {trial.id for trial in missing}
        if keeper.saved_seconds >= 1:
            trials, seconds = counted(keeper.saved, "trial"), keeper.saved_seconds
            recorder.progress.note(f"{trials} began with a network that was initialized before: {seconds:.0f} s saved")


def _wind_up(recorder: Recorder, folder: Path) -> None:
    """Leave an interrupted run in order: MLflow level with the ledger as far as a few seconds go, and a report."""
    from initbench.reporting.report import write_report

    if any(recorder.ledger.trials.glob("*.json")):
        begun = time.monotonic()
        recorder.progress.note("interrupted: writing the report of what has finished; once more ends at once")
        if recorder.waiting > _MOST_WAITING:  # they would slow the report down, and most would be left to `sync` anyway
            recorder.close(begun)
            write_report(folder)
            return
        write_report(folder)
        recorder.close(max(begun + _SECONDS_TO_WIND_UP, time.monotonic() + 1))


def _statuses(records: Mapping[str, TrialRecord]) -> dict[str, str]:
    return {i: record.status for i, record in records.items()}


def _cpus(suite: Suite, trials: Iterable[TrialSpec]) -> float:
    """Return the cores of a trial: what the suite says, and no fewer than a trial has threads."""
    return max(suite.resources.cpus, *(trial.recipe.threads for trial in trials))


def _text(suite: Suite) -> str:
    """Return the suite file's text, and what the command line changed in it as comments."""
    options = sorted(set(suite.document.overrides.values()))
    lines = [f"# run with {option}" for option in options]
    known = suite.document.text.splitlines()  # of a suite that is read from beside its ledger
    return suite.document.text + "".join(f"{line}\n" for line in lines if line not in known)
