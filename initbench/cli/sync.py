"""`initbench sync DIR`: bring MLflow up to date with the ledger."""

import sys

from initbench.cli.options import Debug, Json, SuiteFolder, TrackingUri, print_json, suite_folder
from initbench.cli.output import say
from initbench.extras import require


def sync(
    folder: SuiteFolder = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Write the records of the ledger that MLflow lacks to MLflow; no trial is written twice.

    A record that cannot be read is named and left out; the exit code is then 1.
    """
    require("mlflow")  # an error that occurs later would count as one of the store
    from initbench.tracking.mlflow import sync_folder

    skipped: list[str] = []
    counts = sync_folder(suite_folder(folder), tracking_uri, skipped)
    if json:
        print_json(counts)
    else:
        say("MLflow: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
    for line in skipped:
        say(f"skipped {line}", to_stderr=True)
    if skipped:
        sys.exit(1)
