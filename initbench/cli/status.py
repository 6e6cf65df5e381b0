"""`initbench status DIR`: the progress of a suite's run."""

import time
from datetime import datetime
from typing import Annotated

import typer

from initbench.cli.options import Debug, Json, SuiteFolder, console, print_json, suite_folder
from initbench.cli.output import duration, say
from initbench.cli.signals import is_terminated
from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.execution.status import Status, StatusReader

_MOST_LINES = 10


def status(
    folder: SuiteFolder = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until the run ends.")] = False,
    every: Annotated[
        float, typer.Option(min=0.1, help="With --watch: seconds between two updates.", metavar="SECONDS")
    ] = 5.0,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Show the progress of a suite's run: finished, running and failed trials, and the errors. Nothing is written."""
    if watch and json:
        raise InitbenchError("--watch cannot be combined with --json; repeat the command instead")
    reader = StatusReader(suite_folder(folder))
    state = reader.read()
    if json:
        print_json(state.to_json())
        return
    if not watch:
        for line in lines(state):
            say(line)
        return
    from rich.live import Live
    from rich.text import Text

    try:
        with Live(Text("\n".join(lines(state))), console=console(), auto_refresh=False) as live:
            while state.running:
                time.sleep(every)
                state = reader.read()
                live.update(Text("\n".join(lines(state))), refresh=True)
    except KeyboardInterrupt:
        if is_terminated():
            raise


def lines(state: Status) -> list[str]:
    told = [f"{state.folder}: {_run(state)}", _counts(state)]
    if state.running and state.per_hour is not None:
        left = "" if state.seconds_left is None else f", about {duration(state.seconds_left)} left"
        told.append(f"{state.per_hour:.3g} trials an hour{left}")
    told += _some(
        [
            f"  running: {t.name} ({f'{t.fraction:.0%}, ' if t.fraction else ''}for {duration(t.seconds)})"
            for t in state.now
        ]
    )
    for reason in state.reasons[:_MOST_LINES]:
        hosts = ", ".join(f"{host}: {number}" for host, number in reason.hosts.items())
        where = f" (on {hosts})" if hosts else ""
        told.append(f"  failed: {reason.trials} × {reason.reason}{where}")
    if len(state.reasons) > _MOST_LINES:
        told.append(f"  and {len(state.reasons) - _MOST_LINES} more reasons")
    if state.failed and not state.running:
        told.append(f"to run the failed trials again: initbench retry {state.folder} --failed")
    if state.others:
        told.append(f"{counted(state.others, 'other record')}, of trials that the suite does not plan")
    told += _some([f"  damaged: {line}" for line in state.damaged])
    return [*told, *state.problems]


def _run(state: Status) -> str:
    since = "" if state.started_at is None else f" since {_clock(state.started_at)}"
    if state.running:
        where = "" if state.host is None or state.ended_at is not None else f" on {state.host} (process {state.pid})"
        return f"running{since if state.ended_at is None else ''}{where}"
    unknown = "it is unknown whether a run is active here" if state.running is None else "not running"
    if state.started_at is None:
        return unknown
    if state.ended_at is None:
        ending = "was killed" if state.running is False else "has not ended"
        return f"{unknown}; the last run began {_clock(state.started_at)} on {state.host} and {ending}"
    ending = "" if state.ending == "finished" else f": {state.ending}"
    return f"{unknown}; the last run ended {_clock(state.ended_at)}{ending}"


def _counts(state: Status) -> str:
    of = "" if state.total is None else f" of {state.total}"
    parts = [f"{state.done}{of} trials done"]
    if state.diverged:
        parts.append(f"{state.diverged} of them diverged")
    if state.failed:
        parts.append(f"{state.failed} failed")
    if state.now:
        parts.append(f"{len(state.now)} running")
    if state.left is not None:
        parts.append(f"{state.left} left")
    if state.awaited:
        parts.append(f"up to {state.awaited} more follow from the results of searches")
    return ", ".join(parts)


def _some(texts: list[str]) -> list[str]:
    more = len(texts) - _MOST_LINES
    return [*texts[:_MOST_LINES], *([f"  and {more} more"] if more > 0 else [])]


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
