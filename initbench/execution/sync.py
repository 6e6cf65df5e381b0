"""What a ledger has and MLflow lacks is passed on."""

from __future__ import annotations

from pathlib import Path

from initbench.errors import InitbenchError
from initbench.ledger import Ledger


def sync_folder(folder: Path, tracking_uri: str | None = None, skipped: list[str] | None = None) -> dict[str, int]:
    """Write to MLflow what a suite's folder has and MLflow lacks.

    Return how many runs were written, replaced, relabelled and left unchanged; `skipped` takes a line for each file
    that is not a record.

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
