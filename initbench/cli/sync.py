"""`initbench sync DIR`: write to MLflow what the ledger has and MLflow lacks."""

from __future__ import annotations

import typer

from initbench.cli.options import Debug, Json, SuiteFolder, TrackingUri, print_json, suite_folder


def sync(
    folder: SuiteFolder = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Write to MLflow what the ledger has and MLflow lacks; nothing is written twice."""
    from initbench.execution.driver import sync_folder

    counts = sync_folder(suite_folder(folder), tracking_uri)
    if json:
        print_json(counts)
    else:
        typer.echo("MLflow: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
