"""`initbench plan`: what a suite comes to, before it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    console,
    print_json,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.suite.plan import Plan
    from initbench.suite.spec import TrialSpec


def plan(
    suite: SuiteFile,
    assignments: Assignments = None,
    only: Only = None,
    seeds: Seeds = None,
    smoke: Smoke = False,
    out: Out = Path("runs"),
    plugin: Plugins = None,
    power: Annotated[
        bool, typer.Option("--power", help="Say what difference the suite can detect, and how many seeds one needs.")
    ] = False,
    pilot: Annotated[
        Path | None,
        typer.Option("--pilot", help="With --power: a suite's folder to learn the spread from.", metavar="DIR"),
    ] = None,
    seed_deviation: Annotated[
        float | None,
        typer.Option(
            "--seed-deviation", help="With --power: that of the test error, as a fraction, in place of a pilot."
        ),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option("--difference", help="With --power: of two test errors, as a fraction; default: 0.01."),
    ] = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Print the trials of a suite by cell, what is incompatible and why, and what has a result already."""
    from initbench.cli.power import plan_power, power_sentences
    from initbench.cli.request import SMOKE, read_request
    from initbench.errors import InitbenchError
    from initbench.ledger import Ledger

    if not power and (pilot is not None or seed_deviation is not None or difference is not None):
        raise InitbenchError("--pilot, --seed-deviation and --difference go with --power")
    request = read_request(suite, assignments, only, seeds, plugin, smoke=smoke)
    statuses = Ledger(out / request.suite.name).statuses()
    summary: dict[str, Any] = {
        "suite": request.suite.name,
        "cells": _cells(request.plan, statuses),
        "incompatible": _incompatible(request.plan),
        "trials": len(request.plan.trials),
        "missing": len(request.plan.missing(statuses)),
        "excluded": request.plan.excluded,
    }
    if power:
        folder = out / request.suite.name
        summary["power"] = plan_power(
            request.plan, folder, pilot, seed_deviation, 0.01 if difference is None else difference
        )
    if json:
        print_json(summary)
    else:
        _print(summary)
        if smoke:
            console().print(f"note: {SMOKE}", style="yellow", markup=False)
        for line in power_sentences(summary["power"]) if power else ():
            console().print(line, markup=False)


def _cells(plan: Plan, statuses: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one entry for each cell: its labels, what tells it apart beside them, and its trials."""
    from initbench.suite.labels import architecture_labels, component_labels, initializer_labels

    every = [*plan.trials, *plan.unselected]
    data = [trial.model_dump(mode="json") for trial in every]
    labels = zip(
        architecture_labels(data), initializer_labels(data), component_labels([d["dataset"] for d in data]), strict=True
    )
    label_of = dict(zip((trial.id for trial in every), labels, strict=True))
    crossed = _crossed_fields(every)
    members: dict[str, list[TrialSpec]] = defaultdict(list)
    for trial in plan.trials:
        members[trial.cell].append(trial)
    cells = []
    for cell, trials in members.items():
        first = trials[0]
        architecture, initializer, dataset = label_of[first.id]
        cells.append(
            {
                "cell": cell,
                "architecture": architecture,
                "initializer": initializer,
                "dataset": dataset,
                "recipe": {name: getattr(first.recipe, name) for name in crossed},
                "set_by_rules": {key: _value(first, key) for key in first.set_by_rules},
                "seeds": [trial.seed for trial in trials],
                "trials": [trial.id for trial in trials],
                "statuses": dict(Counter(statuses.get(trial.id, "missing") for trial in trials)),
            }
        )
    return cells


def _crossed_fields(trials: Sequence[TrialSpec]) -> list[str]:
    """Return the fields of the recipe that vary among the trials where no rule has set them."""
    values: dict[str, set[Any]] = defaultdict(set)
    for trial in trials:
        for name, value in trial.recipe:
            if f"recipe.{name}" not in trial.set_by_rules:
                values[name].add(value)
    return [name for name, found in values.items() if len(found) > 1]


def _value(trial: TrialSpec, key: str) -> Any:
    kind, _, name = key.partition(".")
    if kind == "recipe":
        return getattr(trial.recipe, name)
    if name == "base":
        return trial.initializer.base and trial.initializer.base.name
    return trial.initializer.batch_size if name == "batch_size" else trial.initializer.arguments[name]


def _incompatible(plan: Plan) -> list[dict[str, str]]:
    from initbench.suite.labels import architecture_labels, initializer_labels

    data = [pair.spec.model_dump(mode="json") for pair in plan.incompatible]
    labels = zip(architecture_labels(data), initializer_labels(data), plan.incompatible, strict=True)
    return [{"architecture": a, "initializer": i, "reason": pair.reason} for a, i, pair in labels]


def _print(summary: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    cells = summary["cells"]
    # A column that says the same everywhere says nothing.
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
    for pair in summary["incompatible"]:
        line = f"incompatible: {pair['architecture']} with {pair['initializer']}: {pair['reason']}"
        out.print(line, style="yellow", markup=False)
    total, missing = summary["trials"], summary["missing"]
    excluded = f", {summary['excluded']} excluded" if summary["excluded"] else ""
    out.print(f"{total} trials in {len(cells)} cells: {missing} to run, {total - missing} have a result{excluded}")


def _pairs(values: Mapping[str, Any]) -> str:
    from initbench.validation import show

    return ", ".join(f"{key}={show(value)}" for key, value in values.items())


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))
