"""The driver: plan → execute → ledger → MLflow → report. It alone writes.

Everything that can be wrong with the request is checked before the first byte is written.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from initbench.errors import DataError, InitbenchError, SuiteError
from initbench.execution.checkpoint_folder import CheckpointFolder
from initbench.execution.environment import differences, environment
from initbench.execution.executor import Executor, Job
from initbench.execution.recorder import Progress, Recorder, Round, SuiteFiles
from initbench.execution.searched import searched
from initbench.execution.shared_networks import NetworkKeeper
from initbench.ledger import Ledger
from initbench.reporting.formatting import counted
from initbench.reporting.resolved import incompatible_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from initbench.execution.progress_file import Asked
    from initbench.ledger import TrialRecord
    from initbench.plugins import PluginFile
    from initbench.suite.choice import Searched
    from initbench.suite.load import Suite
    from initbench.suite.plan import Plan
    from initbench.suite.spec import ComponentSpec, TrialSpec

    Replan = Callable[[Mapping[str, Searched]], Plan]

_GB = 1e9
_MOST_NAMED = 5
# SLURM kills 30 seconds after SIGTERM (KillWait), spot markets 30 to 120; Ray's end and the report take some of them.
_SECONDS_TO_WIND_UP = 8.0


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
            or a disk that is full; what has finished is kept.
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
        if missing:
            for note in check_data(suite, missing):
                progress.note(note)
            _tell_of_emulation(suite, missing, progress)
        _tell_what_is_there(plan, records, progress)
        for line in [
            *skipped[:_MOST_NAMED],
            *[f"and {len(skipped) - _MOST_NAMED} more"] * (len(skipped) > _MOST_NAMED),
        ]:
            progress.note(f"skipped {line}")
        damaged = [trial.id for trial in missing if trial.id not in records and ledger.path(trial.id).exists()]
        resolved = suite.resolved() | {"incompatible": incompatible_entries(plan.refused)}
        files = SuiteFiles(_text(suite), resolved)
        checkpoints = CheckpointFolder.of(suite, folder)
        first = Round.of(plan, missing)
        recorder = Recorder(files, first, records, ledger, uri, progress, asked, damaged, checkpoints)
        ran: set[str] = set()
        try:
            if not missing:
                recorder.ready()
            while missing:
                kept = None if checkpoints is None else checkpoints.settings
                job = Job(missing, _cpus(suite, missing), suite.resources.gpus, plugins, workers, checkpoints=kept)
                _execute(execute, job, recorder, suite.resources.shared_networks_gb * _GB)
                ran |= {trial.id for trial in missing}
                if replan is None:
                    break
                records = {record.id: record for record in ledger.records()}
                plan = replan(searched(records.values()))
                # One that has failed now is tried again by the next run.
                missing = tuple(t for t in plan.missing(_statuses(records)) if t.id not in ran)
                recorder.go_on(Round.of(plan, missing), records)
            from initbench.reporting.report import write_report

            written = write_report(folder)
            recorder.close()
        except BaseException as error:
            recorder.abandon(recorder.failure or error)
            if recorder.failure is not None and isinstance(error, Exception):
                raise recorder.failure from None
            raise
    statuses = Counter(recorder.statuses.get(trial.id, "missing") for trial in plan.trials)
    if plan.awaited:  # a search has failed
        statuses["missing"] += plan.awaited
    sentences = tuple(str(sentence) for sentence in written.sentences)
    seconds = time.monotonic() - begun
    return RunSummary(folder, dict(statuses), len(ran), seconds, written.page, sentences, shown_uri(uri))


def _execute(execute: Executor, job: Job, recorder: Recorder, most_bytes: float) -> None:
    """Run a job, and say what it saved that networks are initialized once."""
    keeper = NetworkKeeper(recorder.ledger.folder, job.trials, most_bytes)
    recorder.networks = keeper
    try:
        execute(replace(job, networks=keeper.networks), recorder)
    finally:
        recorder.progress.end()
        keeper.close()
    if keeper.saved:
        trials, seconds = counted(keeper.saved, "trial"), keeper.saved_seconds
        recorder.progress.note(f"{trials} began with a network that was initialized before: {seconds:.0f} s saved")


def _wind_up(recorder: Recorder, folder: Path) -> None:
    """Leave an interrupted run in order: MLflow level with the ledger as far as a few seconds go, and a report."""
    from initbench.reporting.report import write_report

    if any(recorder.ledger.trials.glob("*.json")):
        recorder.progress.note("interrupted: writing the report of what has finished; once more ends at once")
        write_report(folder)
        recorder.close(_SECONDS_TO_WIND_UP)


def _statuses(records: Mapping[str, TrialRecord]) -> dict[str, str]:
    return {i: record.status for i, record in records.items()}


def sync_folder(folder: Path, tracking_uri: str | None = None, skipped: list[str] | None = None) -> dict[str, int]:
    """Write to MLflow what a suite's folder has and MLflow lacks.

    Args:
        folder: the suite's folder.
        tracking_uri: as for `run_suite`.
        skipped: takes a line for each file that is not a record.

    Returns:
        How many runs were written, replaced, relabelled and left unchanged.

    Raises:
        InitbenchError: the tracking server does not answer, or a run of the suite is at work here.
    """
    from initbench.tracking.mlflow import MlflowTracker, sync
    from initbench.tracking.uri import check_tracking_uri, resolve_tracking_uri

    ledger, skipped = Ledger(folder), [] if skipped is None else skipped
    first = next(ledger.records([]), None)
    if first is None:
        raise InitbenchError(f"{folder}: has no trial records; initbench run SUITE makes them")
    uri = resolve_tracking_uri(folder, tracking_uri)
    check_tracking_uri(uri)
    with ledger.lock():
        tracker = MlflowTracker(folder, uri, first.spec["suite"])
        counts = sync(ledger, tracker, skipped)
        tracker.log_suite()
    return {str(written): number for written, number in counts.items()}


def check_data(suite: Suite, trials: Iterable[TrialSpec]) -> list[str]:
    """Read every dataset once, downloading what is missing, before anything is written.

    Returns:
        What the user should know of the files, a line for each dataset of which there is something.

    Raises:
        SuiteError: an argument that the dataset refuses, or data that cannot be had; the cause says which.
    """
    from initbench.data.load import load_dataset
    from initbench.errors import ArgumentError

    places = {_named(choice.spec): choice.key for choice in suite.datasets}
    used: dict[str, TrialSpec] = {}
    for trial in sorted(trials, key=lambda trial: trial.phase == "search"):  # the last one, one that searches
        used[trial.dataset.model_dump_json()] = trial
    notes = []
    for trial in used.values():
        dataset = trial.dataset
        key = places.get(_named(dataset), ("dataset",))
        try:
            loaded = load_dataset(dataset.name, dataset.all_arguments, content=dataset.content)
        except ArgumentError as error:
            raise suite.document.argument_error(key, error) from error
        except DataError as error:
            raise suite.document.error(key, str(error)) from error
        if trial.phase == "search" and not len(loaded.validation):
            raise suite.document.error(key, "has no validation samples, by which tune chooses")
        if loaded.facts:
            found = ", ".join(f"{name.replace('_', ' ')}: {number}" for name, number in loaded.facts.items())
            notes.append(f"{dataset.name}: {found}")
    return notes


def _named(component: ComponentSpec) -> str:
    """Return what of a dataset the suite file says, as text."""
    return component.model_dump_json(include={"name", "arguments"})


def _cpus(suite: Suite, trials: Iterable[TrialSpec]) -> float:
    """Return the cores of a trial: what the suite says, and no fewer than a trial has threads."""
    return max(suite.resources.cpus, *(trial.recipe.threads for trial in trials))


def _text(suite: Suite) -> str:
    """Return the suite file's text, and what the command line changed in it as comments."""
    options = sorted(set(suite.document.overrides.values()))
    lines = [f"# run with {option}" for option in options]
    known = suite.document.text.splitlines()  # of a suite that is read from beside its ledger
    return suite.document.text + "".join(f"{line}\n" for line in lines if line not in known)


def _tell_of_emulation(suite: Suite, missing: Iterable[TrialSpec], progress: Progress) -> None:
    """Say where trials in bfloat16 are to run on a device without instructions for it."""
    if all(trial.recipe.precision != "bf16" for trial in missing):
        return
    import torch

    from initbench.training.precision import bf16_is_emulated

    device = "cuda" if suite.resources.gpus else "cpu"
    # Where the GPUs are those of a cluster, this process need not have one.
    if (device == "cpu" or torch.cuda.is_available()) and bf16_is_emulated(device):
        progress.note(
            f"recipe.precision: bf16: this {'GPU' if suite.resources.gpus else 'processor'} has no instructions for "
            "it, and a step may take ten times as long as one of fp32"
        )


def _tell_what_is_there(plan: Plan, records: dict[str, TrialRecord], progress: Progress) -> None:
    planned = {trial.id for trial in (*plan.trials, *plan.unselected)}
    others = len([i for i in records if i not in planned])
    if others:
        them = "it" if others == 1 else "them"
        progress.note(
            f"the ledger also has {counted(others, 'trial')} that this suite does not plan; the report shows {them} too"
        )
    if plan.incompatible:
        are = "is" if len(plan.incompatible) == 1 else "are"
        progress.note(f"{counted(len(plan.incompatible), 'pair')} {are} incompatible: {plan.reasons}")
    # Where the resources are those of a cluster, this process need not have the device that the trials had.
    here = environment("cpu")
    found = [differences(r.environment, here) for r in records.values() if r.environment.get("device") == "cpu"]
    changed = sorted({text for texts in found for text in texts})
    if changed:
        progress.note(f"finished trials ran elsewhere ({'; '.join(changed)}): numbers need not be bitwise comparable")
