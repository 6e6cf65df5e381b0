"""`initbench plan`: the trials of a suite, before they run."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from initbench.arguments import show
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
    console,
    print_json,
)
from initbench.comparing.formatting import counted, listed
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError, SuiteError
from initbench.ledger import Ledger

_MOST_PAIRS = 5


def plan(
    suite: SuiteFile,
    assignments: Assignments = None,
    only: Only = None,
    seeds: Seeds = None,
    smoke: Smoke = False,
    out: Out = Path("runs"),
    plugin: Plugins = None,
    power: Annotated[
        bool,
        typer.Option(
            "--power", help="Print the difference that the suite can detect, and the seeds that a difference needs."
        ),
    ] = False,
    spread_from: Annotated[
        Path | None,
        typer.Option(help="With --power: a suite's folder from which to estimate the spread.", metavar="DIR"),
    ] = None,
    seed_deviation: Annotated[
        float | None,
        typer.Option(
            help="With --power: assumed standard deviation of the outcome between seeds, instead of a folder "
            "(an error is a fraction: 0.01 is one point).",
            metavar="NUMBER",
        ),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            help="With --power: the difference to detect (an error is a fraction); default: 0.01.",
            metavar="NUMBER",
        ),
    ] = None,
    pilot: Annotated[
        bool,
        typer.Option(
            "--pilot", help="Estimate how long the missing trials take, from the ledger and from two short trials."
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --pilot: trials at the same time; default: 1.", metavar="N")
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(help="With --pilot: price of one hour of the machine.", metavar="PER_HOUR"),
    ] = None,
    json: Json = False,
    debug: Debug = False,  # its callback has set it
) -> None:
    """Print the trials of a suite by cell, the incompatible pairs with the reasons, and which trials have a result."""
    from initbench.cli.cells import plan_data
    from initbench.cli.request import read_request
    from initbench.execution.searched import searched

    of_power = {"--spread-from": spread_from, "--seed-deviation": seed_deviation, "--difference": difference}
    _check_together("--power", power, of_power)
    _check_together("--pilot", pilot, {"--workers": workers, "--price": price})
    request = read_request(suite, assignments, only, seeds, plugin, smoke=smoke)
    skipped: list[str] = []
    folder = out / request.suite.name
    records = list(Ledger(folder).records(skipped))
    statuses = {record.id: record.status for record in records}
    planned = request.plan if request.replan is None else request.replan(searched(records))
    summary = plan_data(request.suite, planned, statuses)
    if (asked := request.suite.checkpoints) is not None:
        from initbench.execution.checkpoint_folder import largest_checkpoint, sentence

        largest = largest_checkpoint(planned.missing(statuses))
        summary["checkpoints"] = {**asked.model_dump(), "largest_bytes": largest, "text": sentence(asked, largest)}
    if power:
        from initbench.cli.power import plan_power, power_sentences

        sought = 0.01 if difference is None else difference
        summary["power"] = plan_power(planned, folder, spread_from, seed_deviation, sought, request.suite.compare)
    if pilot:
        from initbench.cli.pilot import pilot_sentences, plan_pilot

        summary["pilot"] = plan_pilot(request.suite, planned, folder, workers, price)
    notes = (*request.notes, *(f"skipped {line}" for line in skipped))
    if json:
        print_json(summary | {"notes": notes} if notes else summary)
    else:
        _print(summary)
        for note in notes:
            console().print(f"note: {note}", style="yellow", markup=False, soft_wrap=True)
        for line in power_sentences(summary["power"]) if power else ():
            console().print(line, markup=False)
        for line in pilot_sentences(summary["pilot"]) if pilot else ():
            console().print(line, markup=False, soft_wrap=True)
    if not summary["trials"]:
        raise SuiteError("no trial can run", request.suite.document.path)


def _check_together(switch: str, is_on: bool, options: Mapping[str, Any]) -> None:
    for option, value in options.items():
        if value is not None and not is_on:
            raise InitbenchError(f"{option} needs {switch}")


def _print(summary: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = summary["cells"]
    # Columns with the same value everywhere are left out.
    several = len({cell["dataset"] for cell in cells}) > 1
    crossed = any(cell["recipe"] for cell in cells)
    table = Table(title=summary["suite"], title_justify="left", box=None, padding=(0, 2, 0, 0))
    columns = ["architecture", "initializer", *["dataset"] * several, *["recipe"] * crossed]
    for column in (*columns, "seeds", "in the ledger", "set by rules"):
        table.add_column(column, overflow="fold")
    previous = None
    for cell in cells:
        name = cell["architecture"] if cell["architecture"] != previous else ""
        previous = cell["architecture"]
        have = ", ".join(f"{n} {status}" for status, n in cell["statuses"].items() if status != "missing")
        row = [name, cell["initializer"], *[cell["dataset"]] * several, *[_pairs(cell["recipe"])] * crossed]
        row += [_ranges(cell["seeds"]), have or "-", _pairs(cell["set_by_rules"])]
        table.add_row(*(Text(text) for text in row))  # in a Text brackets are no markup
    out.print(table)
    if summary["compare"] != [*DEFAULT_COMPARE]:
        out.print(f"compares {', '.join(summary['compare'])}", markup=False)
    if "tune" in summary:
        out.print(_tuned(summary["tune"]), markup=False)
    for line in _incompatible_lines(summary["incompatible"]):
        out.print(line, style="yellow", markup=False)
    for group in summary["undescribed"]:
        waiting = counted(group["trials"], "trial")
        line = f"the ids of {waiting} on {group['dataset']} are not known yet: {group['reason']}"
        out.print(line, style="yellow", markup=False)
    total, missing = summary["trials"], summary["missing"]
    excluded = f", {summary['excluded']} excluded" if summary["excluded"] else ""
    trials = f"{counted(total, 'trial')} in {counted(len(cells), 'cell')}"
    have = f"{total - missing} {'has' if total - missing == 1 else 'have'} a result"
    out.print(f"{trials}: {missing} to run, {have}{excluded}")
    if missing and "checkpoints" in summary:
        out.print(summary["checkpoints"]["text"], markup=False)
    if summary["awaited"]:
        out.print(f"up to {counted(summary['awaited'], 'more trial')} follow from the results of searches")


def _tuned(tune: Mapping[str, Any]) -> str:
    keys = [
        f"{key} ({_pairs(values) if isinstance(values, dict) else ', '.join(map(str, values))})"
        for key, values in tune["keys"].items()
    ]
    who = "once for all seeds" if tune["search"] == "once" else "for each seed"
    at = {"recipe": "as written", "shared": "at the rate that its workload shares", "own": "at its own best"}
    finals = listed([at[protocol] for protocol in tune["protocols"]])
    tries = f"{tune['tries']} {'random' if tune['points'] == 'random' else 'even'} points"
    return f"tunes {listed(keys)}: every cell tries {tries} {who} on the validation split, then trains {finals}"


def _incompatible_lines(pairs: list[dict[str, str]]) -> list[str]:
    """Return each reason once, with the pairs that it applies to."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        others = [
            f" {word} {pair[kind]}" for kind, word in (("initializer", "with"), ("dataset", "on")) if kind in pair
        ]
        by_reason[pair["reason"]].append(pair["architecture"] + "".join(others))
    lines = []
    for reason, texts in by_reason.items():
        more = f"; and {len(texts) - _MOST_PAIRS} more" if len(texts) > _MOST_PAIRS else ""
        lines.append(f"incompatible: {'; '.join(texts[:_MOST_PAIRS])}{more}: {reason}")
    return lines


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={show(value)}" for key, value in values.items())


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))
