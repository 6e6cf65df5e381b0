"""Trials in MLflow: flat runs, written by the driver alone, in batches, never doubled.

A run is found by its tag ``initbench.trial_id``. The digest of the record, ``initbench.record``, is written last, so a
run that has it is complete, even if a driver was killed. The other runs are written again from the ledger.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, TypeVar
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.files import MOST_BYTES, is_within
from initbench.ledger import RESOLVED_FILE, SUITE_FILE, Ledger, TrialRecord
from initbench.tracking import contents
from initbench.tracking.uri import (
    check_regular,
    check_stays,
    check_tracking_uri,
    default_tracking_uri,
    is_server,
    leads_out,
    resolve_tracking_uri,
    shown_uri,
    sqlite_path,
    sqlite_uri,
    without_secrets,
)
from initbench.visible_text import visible

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


_RUNS_PER_PAGE = 1000
Written = Literal["written", "unchanged", "replaced", "relabelled"]
"""The result of writing a trial's run."""
MOST_REFUSED = 3
"""After a store has refused this many trials in a row, it counts as not answering."""
T = TypeVar("T")
_ARTIFACTS = "mlartifacts"
# MLflow takes at most 1000 entities in one call, at most 100 of them parameters.
_METRICS_PER_CALL = 900
_PARAMETERS_PER_CALL = 100


def active_runs(client: MlflowClient, experiment_id: str, query: str = "") -> Iterator[Run]:
    """Yield the runs of an experiment that are not deleted, page by page."""
    from mlflow.entities import ViewType

    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id], query, run_view_type=ViewType.ACTIVE_ONLY, max_results=_RUNS_PER_PAGE, page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def errors_of_one_line(uri: str) -> Iterator[None]:
    """Turn MLflow's exceptions into an `InitbenchError` of one line that names the store."""
    try:
        yield
    except InitbenchError:
        raise
    except Exception as error:  # noqa: BLE001  # raised again, in one line and without secrets
        message = f"MLflow at {shown_uri(uri)}: {without_secrets(_reason(error), uri)}"
        whole = "".join(traceback.format_exception(error))
        # The output of --debug would contain them too.
        raise InitbenchError(message) from (error if without_secrets(whole, uri) == whole else None)


def _reason(error: Exception) -> str:
    first, *more = str(error).strip().splitlines() or [""]
    # SQLAlchemy's prefix if a query had to write before it could read.
    return more[0] if more and first.startswith("(raised as a result of ") else first


def connect(uri: str) -> MlflowClient:
    """Import MLflow (1.5 s) without output, and return a client; nothing else of the process is changed."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # By default MLflow tries for minutes; once a store is back, `initbench sync` brings it up to date.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    # Tracebacks with SQL for errors that are raised anyway, and "Retrying" for each request without an answer.
    for name, level in (("mlflow.store", logging.CRITICAL), ("urllib3.connectionpool", logging.ERROR)):
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(level)
    from mlflow import MlflowClient

    path = sqlite_path(uri)
    if path is not None and path.exists():
        check_stays(path)
        check_regular(path)
    elif path is not None:
        # MLflow makes its tables one migration after another, and cannot continue if it was killed meanwhile.
        part, lock = (path.with_name(path.name + ending) for ending in (".part", ".part.lock"))
        if lock.is_symlink():  # in a folder that somebody else made
            lock.unlink()
        with FileLock(lock):  # another suite may make the same store
            if not path.exists():
                part.unlink(missing_ok=True)
                MlflowClient(tracking_uri=sqlite_uri(part)).search_experiments(max_results=1)
                part.replace(path)
            lock.unlink(missing_ok=True)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


@dataclass
class _KnownRun:
    """The known state of a run, without asking MLflow again."""

    run_id: str
    name: str
    tags: dict[str, str]

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(run.info.run_id, run.info.run_name or "", dict(run.data.tags))


class MlflowTracker:
    """Writes one suite's trials to one MLflow experiment, named after the suite.

    Artifacts go to ``mlartifacts`` in the suite's folder, or to the server.
    """

    def __init__(self, folder: str | Path, uri: str, suite_name: str) -> None:
        self._folder = Path(folder).resolve()
        self._uri = uri
        self._suite_name = visible(suite_name)
        with errors_of_one_line(self._uri):
            if not is_server(uri):
                check_stays(self._folder / _ARTIFACTS)
            self._client = connect(uri)
            self._experiment_id = self._find_or_create_experiment()

    @cached_property
    def _runs(self) -> dict[str, list[_KnownRun]]:
        """The runs of each trial; requesting thousands takes seconds, so it is done at the first write."""
        runs: dict[str, list[_KnownRun]] = defaultdict(list)
        for run in active_runs(self._client, self._experiment_id):
            if (trial := run.data.tags.get(contents.TRIAL_ID)) is not None:
                runs[trial].append(_KnownRun.of(run))
        return runs

    def log(self, record: TrialRecord, labels: Mapping[str, str]) -> Written:
        """Write a trial as one run, however often this is called.

        Return ``written``; ``unchanged`` if the run is there; ``relabelled`` if only its labels were out of date; or
        ``replaced`` if it was half written, from an earlier attempt, or from another version with other names.
        """
        with errors_of_one_line(self._uri):
            runs = self._runs[record.id]
            digest = contents.record_digest(record)
            wanted = {contents.RECORD_DIGEST: digest, contents.LAYOUT: contents.LAYOUT_VERSION}
            current = next((run for run in runs if wanted.items() <= run.tags.items()), None)
            obsolete = [run for run in runs if run is not current]
            for run in obsolete:
                self._client.delete_run(run.run_id)
                runs.remove(run)
            if current is None:
                self._write(record, labels, digest)
            elif self._relabel(current, contents.run_name(record, labels), contents.tags(record, labels)):
                return "relabelled"
            if obsolete:
                return "replaced"
            return "unchanged" if current else "written"

    def log_suite(self) -> None:
        """Write the suite as artifacts of the run named ``report``, replacing existing ones.

        They are the suite file, as written and resolved, and the report with its CSVs; MLflow renders its
        ``index.html``. Other files in the folder, and targets of links, are not passed on.
        """
        from initbench.reporting.manifest import written_files

        with errors_of_one_line(self._uri):
            query = f"tags.`{contents.KIND}` = '{contents.REPORT}'"
            tags = {contents.KIND: contents.REPORT, "suite": self._suite_name}
            run = next(active_runs(self._client, self._experiment_id, query), None) or self._client.create_run(
                self._experiment_id, tags=tags, run_name=contents.REPORT
            )
            self._check_artifacts(run)
            suite = [self._folder / name for name in (SUITE_FILE, RESOLVED_FILE)]
            files = [
                file for file in suite if file.is_file() and not leads_out(file) and file.stat().st_size <= MOST_BYTES
            ]
            for file in [*files, *written_files(self._folder / contents.REPORT)]:
                folder = file.parent.relative_to(self._folder).as_posix()
                self._client.log_artifact(run.info.run_id, str(file), None if folder == "." else folder)
            self._client.set_terminated(run.info.run_id)

    def _write(self, record: TrialRecord, labels: Mapping[str, str], digest: str) -> None:
        from mlflow.entities import Metric, Param

        end = int(float(record.timing.get("ended_at") or time.time()) * 1000)
        start = end - int(float(record.timing.get("total_seconds") or 0) * 1000)
        run = self._client.create_run(
            self._experiment_id, start, contents.tags(record, labels), contents.run_name(record, labels)
        )
        known = _KnownRun.of(run)
        self._runs[record.id].append(known)
        values = [Metric(key, value, end, step) for (key, step), value in contents.metrics(record).items()]
        parameters = [Param(key, value) for key, value in contents.parameters(record).items()]
        for some_values, some_parameters in zip_longest(
            _batches(values, _METRICS_PER_CALL), _batches(parameters, _PARAMETERS_PER_CALL), fillvalue=()
        ):
            self._client.log_batch(known.run_id, metrics=some_values, params=some_parameters)
        if layers := contents.layer_table(record):
            self._client.log_text(known.run_id, layers, contents.LAYERS_FILE)
        self._client.log_text(known.run_id, contents.record_text(record), contents.RECORD_FILE)
        self._client.set_terminated(known.run_id, "FAILED" if record.status == "failed" else "FINISHED", end)
        self._client.set_tag(known.run_id, contents.RECORD_DIGEST, digest)
        known.tags[contents.RECORD_DIGEST] = digest

    def _relabel(self, run: _KnownRun, name: str, tags: Mapping[str, str]) -> bool:
        """Bring a run's name and tags up to date; return whether they were not."""
        from mlflow.entities import RunTag

        changed = {key: value for key, value in tags.items() if run.tags.get(key) != value}
        if changed:
            self._client.log_batch(run.run_id, tags=[RunTag(key, value) for key, value in changed.items()])
            run.tags |= changed
        renamed = run.name != name
        if renamed:
            self._client.update_run(run.run_id, name=name)
            run.name = name
        return bool(changed) or renamed

    def _find_or_create_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(self._suite_name)
        if experiment is None:
            try:
                return self._client.create_experiment(
                    self._suite_name,
                    artifact_location=None if is_server(self._uri) else self._artifacts(),
                    # The UI has one view for language-model applications and one for training runs, which is ours.
                    tags={"mlflow.experimentKind": "custom_model_development"},
                )
            except MlflowException:
                # Another driver on the same server was faster.
                experiment = self._client.get_experiment_by_name(self._suite_name)
                if experiment is None:
                    raise
        # MLflow keeps absolute paths, and would write to the old location of a folder that was moved.
        if self._uri == default_tracking_uri(self._folder) and experiment.artifact_location != self._artifacts():
            raise InitbenchError(
                f"{self._folder / 'mlflow.db'} was made in {experiment.artifact_location}; "
                f"delete it and run: initbench sync {self._folder}"
            )
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        return experiment.experiment_id

    def _artifacts(self) -> str:
        return (self._folder / _ARTIFACTS).as_uri()

    def _check_artifacts(self, run: Run) -> None:
        """Refuse a run with artifacts outside this folder, if its store is this folder's or their path begins in it."""
        location = run.info.artifact_uri
        if self._uri == default_tracking_uri(self._folder) or location.startswith(self._artifacts()):
            parts = urlsplit(location)
            if parts.scheme != "file" or not is_within(Path(unquote(parts.path)), self._folder):
                raise InitbenchError(
                    f"{self._folder}: MLflow's run {run.info.run_name!r} keeps its artifacts out of this folder, in "
                    f"{location}; delete mlflow.db and {_ARTIFACTS} and run: initbench sync {self._folder}"
                )


def sync(ledger: Ledger, tracker: MlflowTracker, skipped: list[str] | None = None) -> Counter[Written]:
    """Write the runs of a ledger that are missing, half written, changed or labelled differently.

    If MLflow refuses a trial, the others follow; if it refuses several in a row, it counts as not answering. The error
    says how many trials are missing; `skipped` receives a line for each file that is not a record.
    """
    records = list(ledger.records([] if skipped is None else skipped))
    labels = contents.trial_labels([record.spec for record in records])
    counts: Counter[Written] = Counter()
    refused: list[InitbenchError] = []
    in_a_row = 0
    for record, label in zip(records, labels, strict=True):
        try:
            counts[tracker.log(record, label)] += 1
            in_a_row = 0
        except InitbenchError as error:
            refused.append(error)
            in_a_row += 1
            if in_a_row == MOST_REFUSED:
                break
    if refused:
        without = len(records) - counts.total()
        raise InitbenchError(f"{refused[0]}; {without} of {counted(len(records), 'trial')} not written") from refused[0]
    return counts


def sync_folder(folder: Path, tracking_uri: str | None = None, skipped: list[str] | None = None) -> dict[str, int]:
    """Write the records of a suite's folder that MLflow lacks, and the suite, to MLflow; return the counts of `sync`.

    An InitbenchError says that the tracking server does not answer, or that a run of the suite is at work here.
    """
    ledger = Ledger(folder)
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


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
