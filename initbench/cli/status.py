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
    found = reader.read()
    if json:
        print_json(found.to_json())
        return
    if not watch:
        for line in lines(found):
            say(line)
        return
    from rich.live import Live
    from rich.text import Text

    try:
        with Live(Text("\n".join(lines(found))), console=console(), auto_refresh=False) as live:
            while found.running:
                time.sleep(every)
                found = reader.read()
                live.update(Text("\n".join(lines(found))), refresh=True)
    except KeyboardInterrupt:
        if is_terminated():
            raise


def lines(found: Status) -> list[str]:
    told = [f"{found.folder}: {_run(found)}", _counts(found)]
    if found.running and found.per_hour is not None:
        left = "" if found.seconds_left is None else f", about {duration(found.seconds_left)} left"
        told.append(f"{found.per_hour:.3g} trials an hour{left}")
    told += _some(
        [
            f"  running: {t.name} ({f'{t.fraction:.0%}, ' if t.fraction else ''}for {duration(t.seconds)})"
            for t in found.now
        ]
    )
    for reason in found.reasons[:_MOST_LINES]:
        hosts = ", ".join(f"{host}: {number}" for host, number in reason.hosts.items())
        where = f" (on {hosts})" if hosts else ""
        told.append(f"  failed: {reason.trials} × {reason.reason}{where}")
    if len(found.reasons) > _MOST_LINES:
        told.append(f"  and {len(found.reasons) - _MOST_LINES} more reasons")
    if found.failed and not found.running:
        told.append(f"to run the failed trials again: initbench retry {found.folder} --failed")
    if found.others:
        told.append(f"{counted(found.others, 'other record')}, of trials that the suite does not plan")
    told += _some([f"  damaged: {line}" for line in found.damaged])
    return [*told, *found.problems]


def _run(found: Status) -> str:
    since = "" if found.started_at is None else f" since {_clock(found.started_at)}"
    if found.running:
        where = "" if found.host is None or found.ended_at is not None else f" on {found.host} (process {found.pid})"
        return f"running{since if found.ended_at is None else ''}{where}"
    unknown = "it is unknown whether a run is active here" if found.running is None else "not running"
    if found.started_at is None:
        return unknown
    if found.ended_at is None:
        ending = "was killed" if found.running is False else "has not ended"
        return f"{unknown}; the last run began {_clock(found.started_at)} on {found.host} and {ending}"
    ending = "" if found.ending == "finished" else f": {found.ending}"
    return f"{unknown}; the last run ended {_clock(found.ended_at)}{ending}"


def _counts(found: Status) -> str:
    of = "" if found.total is None else f" of {found.total}"
    parts = [f"{found.done}{of} trials done"]
    if found.diverged:
        parts.append(f"{found.diverged} of them diverged")
    if found.failed:
        parts.append(f"{found.failed} failed")
    if found.now:
        parts.append(f"{len(found.now)} running")
    if found.left is not None:
        parts.append(f"{max(found.left - len(found.now), 0)} left")
    if found.awaited:
        parts.append(f"up to {found.awaited} more follow from the results of searches")
    return ", ".join(parts)


def _some(found: list[str]) -> list[str]:
    more = len(found) - _MOST_LINES
    return [*found[:_MOST_LINES], *([f"  and {more} more"] if more > 0 else [])]


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(" ", "seconds")
