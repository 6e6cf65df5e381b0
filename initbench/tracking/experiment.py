"""Reading an MLflow experiment back: the trial records that `initbench run` or `initbench sync` wrote.

Every run has its complete record as the artifact ``trial.json``, so a report from here equals the ledger's.
"""

import tempfile
from contextlib import suppress
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from initbench.arguments import nearest
from initbench.errors import InitbenchError, LedgerError
from initbench.files import read_text
from initbench.ledger import RESOLVED_FILE, SUITE_FILE, TrialRecord, record_of
from initbench.reporting.records import slim
from initbench.reporting.resolved import read_compare, read_defaults, read_incompatible, read_tune
from initbench.reporting.source import Source, descriptions_of
from initbench.tracking import contents
from initbench.tracking.mlflow import active_runs, connect, errors_of_one_line
from initbench.tracking.uri import check_tracking_uri, shown_uri, sqlite_path


def read_experiment(name: str, uri: str) -> Source:
    """Return the trial records of an MLflow experiment; a run with an unreadable record is skipped and named.

    Raises an InitbenchError if the store does not answer, or has no such experiment, or this has no readable record,
    and a LedgerError if all records were written in another format.
    """
    check_tracking_uri(uri)
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        raise InitbenchError(f"{path}: there is no MLflow store; give another one with --tracking-uri")
    with errors_of_one_line(uri), tempfile.TemporaryDirectory() as folder:
        client = connect(uri)
        experiment = client.get_experiment_by_name(name)
        if experiment is None or experiment.lifecycle_stage == "deleted":
            names = sorted(known.name for known in client.search_experiments())
            raise InitbenchError(f"MLflow at {shown_uri(uri)}: has no experiment {name!r}{nearest(name, names)}")
        records: dict[str, TrialRecord] = {}
        skipped: list[str] = []
        other_formats: LedgerError | None = None
        for run in active_runs(client, experiment.experiment_id):
            kind = run.data.tags.get(contents.KIND)
            if kind == contents.REPORT:
                for file in (SUITE_FILE, RESOLVED_FILE):
                    with suppress(OSError, ValueError, MlflowException):  # a report does not need all of them
                        client.download_artifacts(run.info.run_id, file, folder)
            elif kind == contents.TRIAL:
                try:
                    record = _record(client, run, folder)
                    records[record.id] = slim(record)
                except (OSError, ValueError, RecursionError, LedgerError, MlflowException) as error:
                    other_formats = other_formats or (error if isinstance(error, LedgerError) else None)
                    reason = str(error).partition("\n")[0] or type(error).__name__
                    skipped.append(f"mlflow:{name}, run {run.info.run_name!r} ({run.info.run_id}): {reason}")
        suite_text = ""
        with suppress(OSError, ValueError):  # optional for a report
            suite_text = read_text(Path(folder) / SUITE_FILE)
        compare, incompatible, tune = read_compare(folder), read_incompatible(folder), read_tune(folder)
        defaults = read_defaults(folder)
    if not records and other_formats is not None:
        raise LedgerError(f"MLflow at {shown_uri(uri)}: experiment {name!r}: {other_formats}")
    if not records:
        unreadable = f"; {len(skipped)} cannot be read, such as {skipped[0]}" if skipped else ""
        raise InitbenchError(f"MLflow at {shown_uri(uri)}: experiment {name!r} has no trial records{unreadable}")
    # In the order of a ledger, so that the report is the same.
    ordered = [records[i] for i in sorted(records)]
    descriptions = descriptions_of(ordered, suite_text)
    tunes = () if tune is None else (tune,)
    return Source(
        ordered,
        tuple(sorted(skipped)),
        descriptions,
        compare=compare,
        incompatible=incompatible,
        tunes=tunes,
        defaults=defaults,
    )


def _record(client: MlflowClient, run: Run, folder: str) -> TrialRecord:
    """Return a run's record; a ValueError says that it is incomplete, or that the artifact is not its record."""
    digest = run.data.tags.get(contents.RECORD_DIGEST)
    if digest is None:
        raise ValueError("half written; initbench sync writes it again")
    path = Path(client.download_artifacts(run.info.run_id, contents.RECORD_FILE, folder))
    record = record_of(read_text(path))
    if contents.record_digest(record) != digest:
        raise ValueError("its record does not match its digest")
    return record
