"""`initbench ui DIR`: MLflow's user interface for a suite's runs."""

from typing import Annotated

import typer

from initbench.cli.options import Debug, SuiteFolder, TrackingUri, suite_folder
from initbench.extras import require
from initbench.tracking.server import serve
from initbench.tracking.uri import resolve_tracking_uri


def ui(
    folder: SuiteFolder = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the server; 0 for any free port.", metavar="PORT")
    ] = 5000,
    host: Annotated[str, typer.Option(help="Address of the server.", metavar="HOST")] = "127.0.0.1",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Serve MLflow's user interface for a suite's runs until Ctrl-C."""
    require("mlflow")  # the server is another process
    path = suite_folder(folder)
    serve(resolve_tracking_uri(path, tracking_uri), path, port, host)
