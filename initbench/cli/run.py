"""`initbench run`: run a suite's missing trials and write its report."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from initbench.cli.options import (
    Assignments,
    Debug,
    Json,
    Only,
    Out,
    Plugins,
    Seeds,
    Smoke,
    SuiteFile,
    TrackingUri,
    print_json,
)
from initbench.cli.signals import begin_work, exit_code
from initbench.errors import InitbenchError
from initbench.execution.executor import Executor
from initbench.execution.progress_file import Asked
from initbench.extras import require
from initbench.tracking.uri import default_tracking_uri, shown_uri

if TYPE_CHECKING:
    from initbench.cli.request import Request


class ExecutorName(StrEnum):
    ray = "ray"
    in_process = "in-process"


ExecutorOption = Annotated[
    ExecutorName, typer.Option(help="ray: Ray Tune; in-process: one trial after another, for debugging.")
]
Address = Annotated[
    str | None,
    typer.Option(help="Address of a running Ray cluster: auto or HOST:PORT; else RAY_ADDRESS.", metavar="ADDRESS"),
]
Workers = Annotated[int | None, typer.Option(min=1, help="Largest number of trials at the same time.", metavar="N")]


def run(
    suite: SuiteFile,
    assignments: Assignments = None,
    only: Only = None,
    seeds: Seeds = None,
    smoke: Smoke = False,
    out: Out = Path("runs"),
    executor: ExecutorOption = ExecutorName.ray,
    address: Address = None,
    workers: Workers = None,
    plugin: Plugins = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Run the trials of a suite that have no result yet, record them, and write the report.

    The same command continues an interrupted run. On Ctrl-C or SIGTERM it keeps the finished trials and writes their
    report; a second signal ends it at once.
    """
    from initbench.cli.request import read_request

    execute_trials = chosen_executor(executor, address)
    request = read_request(suite, assignments, only, seeds, plugin, smoke=smoke)
    execute(
        request,
        out / request.suite.name,
        execute_trials,
        asked=request.asked,
        tracking_uri=tracking_uri,
        workers=workers,
        json=json,
    )


def execute(
    request: Request,
    folder: Path,
    executor: Executor,
    *,
    asked: Asked | None,
    tracking_uri: str | None,
    workers: int | None,
    json: bool,
) -> None:
    """Run a request, show its progress, and end the process with the exit code of `initbench run`."""
    require("ray", "mlflow", "pandas")  # the last two are imported when trials have run
    from initbench.cli.progress import Display
    from initbench.execution.driver import run_suite

    for dataset in request.plan.waiting:
        raise dataset.origin.error(str(dataset.absent)) from dataset.absent
    display = Display(request.plan, to_stderr=json)
    for note in request.notes:
        display.note(note)
    limits = request.suite.resources.minutes or request.suite.resources.memory_gb
    if limits and not isinstance(executor, partial):
        display.note("resources.minutes and resources.memory_gb are not enforced with --executor in-process")
    if request.asked.smoke:
        tracking_uri = tracking_uri or default_tracking_uri(folder)  # not the server of the real results
    begin_work()
    try:
        outcome = run_suite(
            request.suite,
            request.plan,
            folder,
            executor,
            tracking_uri=tracking_uri,
            plugins=request.plugins,
            workers=workers,
            progress=display,
            replan=request.replan,
            asked=asked,
        )
    except KeyboardInterrupt:
        display.interrupted(folder, _command())
        sys.exit(exit_code())
    if json:
        print_json(outcome.to_json())
    else:
        display.summary(replace(outcome, sentences=()) if request.asked.smoke else outcome)  # they mean nothing
    if outcome.statuses.get("failed", 0) or outcome.statuses.get("missing", 0):
        sys.exit(1)


def _command() -> str:
    """Return the command line of this process, without the secrets of a tracking URI."""
    option = "--tracking-uri"
    given = ["", *sys.argv[1:]]
    shown = [
        shown_uri(word)
        if before == option
        else f"{option}={shown_uri(word.removeprefix(f'{option}='))}"
        if word.startswith(f"{option}=")
        else word
        for before, word in pairwise(given)
    ]
    return shlex.join(["initbench", *shown])


def chosen_executor(name: ExecutorName, address: str | None) -> Executor:
    if name is ExecutorName.in_process:
        if address is not None:
            raise InitbenchError("--address is for --executor ray")
        from initbench.execution.in_process import run_in_process

        return run_in_process
    from initbench.execution.ray_tune import run_with_ray_tune

    return partial(run_with_ray_tune, address=address)
