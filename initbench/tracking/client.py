"""A client of MLflow: silent, quick to give up, and with errors of one line."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from initbench.errors import InitbenchError
from initbench.tracking.store_file import check_regular, check_stays
from initbench.tracking.uri import shown_uri, sqlite_path, sqlite_uri, without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_RUNS_PER_PAGE = 1000


def active_runs(client: MlflowClient, experiment_id: str, query: str = "") -> Iterator[Run]:
    """Yield the runs of an experiment that are not deleted, one page of MLflow's after another."""
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
    """Raise what MLflow raises as an `InitbenchError` of one line that names the store."""
    try:
        yield
    except InitbenchError:
        raise
    except Exception as error:  # noqa: BLE001  # raised again, in one line and without secrets
        message = f"MLflow at {shown_uri(uri)}: {without_secrets(_reason(error), uri)}"
        whole = "".join(traceback.format_exception(error))
        # What --debug prints would hold them too.
        raise InitbenchError(message) from (error if without_secrets(whole, uri) == whole else None)


def _reason(error: Exception) -> str:
    first, *more = str(error).strip().splitlines() or [""]
    # What SQLAlchemy says first if a query had to write before it could read.
    return more[0] if more and first.startswith("(raised as a result of ") else first


def connect(uri: str) -> MlflowClient:
    """Import MLflow (1.5 s) so that it stays silent, and return a client; nothing else of the process is changed."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # By default MLflow tries for minutes; a store that comes back is made level by `initbench sync`.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    # Tracebacks with SQL, of errors that are raised as well, and "Retrying" for each request that a server does not
    # answer.
    for name, level in (("mlflow.store", logging.CRITICAL), ("urllib3.connectionpool", logging.ERROR)):
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(level)
    from mlflow import MlflowClient

    path = sqlite_path(uri)
    if path is not None and path.exists():
        check_stays(path)
        check_regular(path)
    elif path is not None:
        # MLflow makes its tables one migration after another, and cannot go on from where it was killed.
        part = path.with_name(path.name + ".part")
        part.unlink(missing_ok=True)
        MlflowClient(tracking_uri=sqlite_uri(part)).search_experiments(max_results=1)
        part.replace(path)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)
