"""`initbench run`: run a suite's missing trials and write its report."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
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
from initbench.cli.signals import Interruption, end_in_order
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from initbench.execution.executor import Executor


class ExecutorName(StrEnum):
    """Where trials run."""

    ray = "ray"
    in_process = "in-process"


def run(
    suite: SuiteFile,
    assignments: Assignments = None,
    only: Only = None,
    seeds: Seeds = None,
    smoke: Smoke = False,
    out: Out = Path("runs"),
    executor: Annotated[ExecutorName, typer.Option(help="Ray Tune, or one after another for debugging.")] = (
        ExecutorName.ray
    ),
    address: Annotated[str | None, typer.Option(help="A running Ray cluster, such as auto.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Most trials at a time.")] = None,
    plugin: Plugins = None,
    tracking_uri: TrackingUri = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Run the trials of a suite that have no result yet, record them, and write the report.

    The same command again continues where the last one stopped. Ctrl-C and SIGTERM keep what has finished and write the
    report of it; a second one ends at once.
    """
    from initbench.cli.progress import Display
    from initbench.cli.request import read_request
    from initbench.execution.driver import run_suite
    from initbench.tracking.uri import default_tracking_uri

    if address is not None and executor is ExecutorName.in_process:
        raise InitbenchError("--address is for --executor ray")
    end_in_order()
    request = read_request(suite, assignments, only, seeds, plugin, smoke=smoke)
    for waiting in request.plan.undescribed:
        raise request.suite.document.error(waiting.key, str(waiting.reason)) from waiting.reason
    folder = out / request.suite.name
    display = Display(request.plan, to_stderr=json)
    for note in request.notes:
        display.note(note)
    if executor is ExecutorName.in_process and (request.suite.resources.minutes or request.suite.resources.memory_gb):
        display.note("resources.minutes and resources.memory_gb are not enforced with --executor in-process")
    if smoke:
        tracking_uri = tracking_uri or default_tracking_uri(folder)  # not the server that real results go to
    try:
        outcome = run_suite(
            request.suite,
            request.plan,
            folder,
            _executor(executor, address),
            tracking_uri=tracking_uri,
            plugins=request.plugins,
            workers=workers,
            progress=display,
        )
    except KeyboardInterrupt as interruption:
        display.interrupted()
        sys.exit(interruption.exit_code if isinstance(interruption, Interruption) else 130)
    if json:
        print_json(outcome.to_json())
    else:
        display.summary(outcome)
    if outcome.statuses.get("failed", 0) or outcome.statuses.get("missing", 0):
        sys.exit(1)


def _executor(name: ExecutorName, address: str | None) -> Executor:
    if name is ExecutorName.in_process:
        from initbench.execution.in_process import run_in_process

        return run_in_process
    from initbench.execution.ray_tune import run_with_ray_tune

    return partial(run_with_ray_tune, address=address)
