"""`initbench retry DIR`: run the missing and failed trials, with the suite that is stored beside the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.options import Debug, Json, Only, Plugins, SuiteFolder, TrackingUri, print_json, suite_folder
from initbench.cli.output import say
from initbench.cli.run import Address, ExecutorName, ExecutorOption, Workers, chosen_executor, execute
from initbench.errors import InitbenchError
from initbench.execution.progress_file import read_plan
from initbench.ledger import SUITE_FILE, Ledger

if TYPE_CHECKING:
    from initbench.cli.request import Request
    from initbench.suite.plan import Plan
    from initbench.suite.tuning import Searched


def retry(
    folder: SuiteFolder = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Run only the failed trials, not those that have not run yet.")
    ] = False,
    only: Only = None,
    executor: ExecutorOption = ExecutorName.ray,
    address: Address = None,
    workers: Workers = None,
    plugin: Plugins = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Run the trials of a suite's folder that have no result, with the suite and options stored beside its ledger.

    If the run had plug-in files, give them again: files that a folder names are never executed.
    """
    execute_trials = chosen_executor(executor, address)
    path = suite_folder(folder)
    request = _request(path, only, plugin, failed=failed)
    if failed and not request.plan.trials:
        if json:
            print_json({"folder": str(path), "statuses": {}, "ran": 0})
        else:
            say(f"{path}: no trial has failed")
        return
    execute(
        request,
        path,
        execute_trials,
        asked=None if failed or only else request.asked,  # a part of the plan does not replace the whole one
        tracking_uri=tracking_uri,
        workers=workers,
        json=json,
    )


def _request(folder: Path, only: list[str] | None, plugins: list[str] | None, *, failed: bool) -> Request:
    from initbench.cli.request import read_request
    from initbench.execution.searched import searched

    stored = read_plan(folder)
    if stored is None or not (folder / SUITE_FILE).exists():
        raise InitbenchError(f"{folder}: lacks plan.json or suite.yaml, which store its request; use initbench run")
    asked = stored.asked
    if asked.plugins and not plugins:
        given = " ".join(f"--plugin {file}" for file in asked.plugins)
        raise InitbenchError(f"{folder}: was run with {given}; give it again")
    # An earlier run with other options may have left failed trials.
    selected = [*(() if failed else asked.only), *(only or ())]
    request = read_request(
        str(folder / SUITE_FILE), list(asked.assignments), selected, asked.seeds, plugins, smoke=asked.smoke
    )._replace(asked=asked)
    if not failed:
        return request
    records = list(Ledger(folder).records([]))
    failures = {record.id for record in records if record.status == "failed"}

    def replan(results: Mapping[str, Searched]) -> Plan:
        """Return the plan of the failed trials alone; final trials that their results lead to have not run yet."""
        planned = request.plan if request.replan is None else request.replan(results)
        rows = [
            replace(row, status="unselected") if row.status == "run" and row.spec.id not in failures else row
            for row in planned.rows
        ]
        return replace(planned, rows=tuple(rows), tuned=())

    return request._replace(plan=replan(searched(records)), replan=None if request.replan is None else replan)
