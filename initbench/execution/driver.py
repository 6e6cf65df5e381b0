"""The driver: plan → execute → ledger → MLflow → report. Only the driver writes.

Everything that can be wrong with the request is checked before the first byte is written.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from initbench.comparing.formatting import counted
from initbench.errors import SuiteError
from initbench.execution.checkpoint_folder import CheckpointFolder
from initbench.execution.executor import Executor, Job, Limits
from initbench.execution.preflight import notes
from initbench.execution.progress_file import Asked
from initbench.execution.recorder import Progress, Recorder
from initbench.execution.searched import searched
from initbench.execution.shared_networks import NetworkKeeper
from initbench.ledger import Ledger
from initbench.plugins import PluginFile
from initbench.reporting.resolved import incompatible_entries
from initbench.suite.load import Suite
from initbench.suite.plan import Plan
from initbench.suite.tuning import Searched
from initbench.tracking.uri import StoreUnreachableError, check_tracking_uri, resolve_tracking_uri, shown_uri

Replan = Callable[[Mapping[str, Searched]], Plan]

_GB = 1e9
# For the report and MLflow. SLURM kills 30 s after SIGTERM (KillWait), spot markets after 30 to 120; Ray takes up to 6.
_SECONDS_TO_WIND_UP = 5.0
_MOST_WAITING = 100  # trials that MLflow takes within some seconds


@dataclass(frozen=True)
class RunSummary:
    folder: Path
    statuses: dict[str, int]  # status → number of the plan's trials, earlier runs included
    ran: int
    seconds: float  # the wall time of the whole run
    report: Path
    sentences: tuple[str, ...]  # the first sentences of the page
    tracking_uri: str  # without its secrets

    def to_json(self) -> dict[str, Any]:
        paths = {"folder": str(self.folder), "report": str(self.report)}
        return asdict(self) | paths | {"seconds": round(self.seconds, 3), "sentences": list(self.sentences)}


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
    """Run the trials that are not in the ledger, record them, and write the report.

    Args:
        suite: gives its name, file, resources and the data for reports.
        plan: its trials.
        folder: the suite's folder, such as ``runs/quickstart``.
        execute: the executor.
        tracking_uri: of MLflow; None for ``MLFLOW_TRACKING_URI``, else a SQLite file in the folder.
        plugins: files that workers import.
        workers: the largest number of trials at the same time.
        progress: receives all events.
        asked: the options of the command line, for `initbench retry`; None keeps those of an earlier run.
        replan: if the suite tunes, returns its plan, whose final trials depend on the results of its search trials.

    Raises:
        InitbenchError: nothing to run, data missing, an invalid tracking URI, another driver at work here, a disk that
            is full, or a folder that was moved, emptied or removed during the run; as after a KeyboardInterrupt,
            finished trials are kept.
        LedgerError: all records in the folder have the schema of another version.
    """
    begun = time.monotonic()
    progress = progress or Progress()
    ledger = Ledger(folder)
    uri = resolve_tracking_uri(folder, tracking_uri)
    if not plan.trials:
        raise SuiteError(": ".join(filter(None, ["no trial can run", plan.reasons])), suite.document.path)
    ledger.check_folder()
    try:
        check_tracking_uri(uri)
    except StoreUnreachableError as error:
        progress.note(f"{error}; the trials are kept in the ledger, and initbench sync {folder} writes them to MLflow")
    with ledger.lock():
        skipped: list[str] = []
        records = {record.id: record for record in ledger.records(skipped)}
        if replan is not None:
            plan = replan(searched(records.values()))
        missing = plan.missing({i: record.status for i, record in records.items()})
        for note in notes(suite, plan, missing, records, skipped):
            progress.note(note)
        beside = {"incompatible": incompatible_entries(plan.refused), "defaults": suite.defaults}
        files = _text(suite), suite.resolved() | beside
        checkpoints = None if suite.checkpoints is None else CheckpointFolder(suite, suite.checkpoints, folder)
        gpus = suite.resources.gpus
        recorder = Recorder(plan, missing, records, ledger, files, uri, progress, asked, checkpoints, gpus)
        job = Job(
            missing,
            gpus=gpus,
            plugins=plugins,
            workers=workers,
            checkpoints=None if checkpoints is None else checkpoints.settings,
            limits=Limits(suite.resources.minutes, suite.resources.memory_gb),
        )
        try:
            ran = _run(suite, execute, recorder, job, replan)
            plan = recorder.plan
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
        trials = f"{counted(plan.awaited, 'final trial')} cannot be determined"
        if any(trial.phase == "search" and recorder.statuses.get(trial.id) == "failed" for trial in plan.trials):
            statuses["missing"] += plan.awaited
            progress.note(
                f"{trials} while search trials fail; to run these again, and then the others: initbench retry {folder}"
            )
        else:
            progress.note(f"{trials}: the shared rate depends on searches that --only left out")
    sentences = tuple(str(sentence) for sentence in written.sentences)
    seconds = time.monotonic() - begun
    return RunSummary(folder, dict(statuses), ran, seconds, written.page, sentences, shown_uri(uri))


def _run(suite: Suite, execute: Executor, recorder: Recorder, job: Job, replan: Replan | None) -> int:
    """Run the missing trials (in a tuned suite, the searches and then the trials that follow); return how many ran."""
    ran: set[str] = set()
    if not recorder.missing:
        recorder.ready()
    while missing := recorder.missing:
        # Trials that failed in an earlier run are last: if they stopped it, the others still get their turn.
        trials = sorted(missing, key=lambda trial: recorder.statuses.get(trial.id) == "failed")
        _run_round(suite, execute, recorder, replace(job, trials=trials))
        ran |= {trial.id for trial in missing}
        if replan is None:
            break
        records = {record.id: record for record in recorder.ledger.records([])}
        plan = replan(searched(records.values()))
        # A trial that failed now is tried again by the next run.
        left = tuple(trial for trial in plan.missing(recorder.statuses) if trial.id not in ran)
        recorder.go_on(plan, left, records)
    return len(ran)


def _run_round(suite: Suite, execute: Executor, recorder: Recorder, job: Job) -> None:
    keeper = NetworkKeeper(recorder.ledger.folder, job.trials, suite.resources.shared_networks_gb * _GB)
    recorder.networks = keeper
    if keeper.problem is not None:
        recorder.note(keeper.problem)
    cpus = max(suite.resources.cpus, *(trial.recipe.threads for trial in job.trials))
    try:
        execute(replace(job, cpus=cpus, networks=keeper.networks), recorder)
    finally:
        recorder.progress.end()
        keeper.close()
    if keeper.saved_seconds >= 1:
        trials, seconds = counted(keeper.saved, "trial"), keeper.saved_seconds
        recorder.progress.note(f"{trials} started from a shared initialized network: {seconds:.0f} s saved")


def _wind_up(recorder: Recorder, folder: Path) -> None:
    """End an interrupted run in order: bring MLflow up to date within a few seconds, and write a report."""
    from initbench.reporting.report import write_report

    if recorder.tracking and any(recorder.ledger.trials.glob("*.json")):
        begun = time.monotonic()
        recorder.progress.note("interrupted: writing the report of the finished trials; interrupt again to end at once")
        # They would delay the report, and most would be left to `sync` anyway.
        if recorder.tracking.waiting > _MOST_WAITING:
            recorder.close(begun)
            write_report(folder)
            return
        write_report(folder)
        recorder.close(max(begun + _SECONDS_TO_WIND_UP, time.monotonic() + 1))


def _text(suite: Suite) -> str:
    """Return the suite file's text, with the changes of the command line as comments."""
    text = suite.document.text
    known = text.splitlines()  # a suite that is read from beside its ledger
    lines = [f"# run with {' '.join(option.split())}" for option in sorted(set(suite.document.overrides.values()))]
    added = "".join(f"{line}\n" for line in lines if line not in known)
    return f"{text}\n{added}" if added and not text.endswith("\n") else text + added
