"""`initbench plan`: what a suite comes to, before it runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from initbench.cli.options import Assignments, Debug, Json, Only, Out, Plugins, Seeds, SuiteFile, print_json

if TYPE_CHECKING:
    from initbench.cli.request import Request
    from initbench.suite.spec import TrialSpec


def plan(
    suite: SuiteFile,
    assignments: Assignments = None,
    only: Only = None,
    seeds: Seeds = None,
    out: Out = Path("runs"),
    plugin: Plugins = None,
    json: Json = False,
    debug: Debug = False,  # noqa: ARG001  # its callback has set it
) -> None:
    """Print the trials of a suite by cell, what is incompatible and why, and what has a result already."""
    from initbench.cli.request import read_request
    from initbench.ledger import Ledger

    request = read_request(suite, assignments, only, seeds, plugin)
    statuses = Ledger(out / request.suite.name).statuses()
    cells = _cells(request, dict(statuses))
    incompatible = _incompatible(request)
    missing = request.plan.missing(dict(statuses))
    if json:
        print_json(
            {
                "suite": request.suite.name,
                "cells": cells,
                "incompatible": incompatible,
                "trials": len(request.plan.trials),
                "missing": len(missing),
                "excluded": request.plan.excluded,
            }
        )
    else:
        _print(request, cells, incompatible, len(missing))


def _cells(request: Request, statuses: dict[str, str]) -> list[dict[str, Any]]:
    from initbench.suite.labels import architecture_labels, initializer_labels

    every = [*request.plan.trials, *request.plan.unselected]
    data = [trial.model_dump(mode="json") for trial in every]
    labels = dict(
        zip((t.id for t in every), zip(architecture_labels(data), initializer_labels(data), strict=True), strict=True)
    )
    trials: dict[str, list[TrialSpec]] = defaultdict(list)
    for trial in request.plan.trials:
        trials[trial.cell].append(trial)
    cells = []
    for cell, members in trials.items():
        architecture, initializer = labels[members[0].id]
        cells.append(
            {
                "cell": cell,
                "architecture": architecture,
                "initializer": initializer,
                "dataset": members[0].dataset.name,
                "set_by_rules": {key: _value(members[0], key) for key in members[0].set_by_rules},
                "seeds": [t.seed for t in members],
                "trials": [t.id for t in members],
                "statuses": dict(Counter(statuses.get(t.id, "missing") for t in members)),
            }
        )
    return cells


def _value(trial: TrialSpec, key: str) -> Any:
    kind, _, name = key.partition(".")
    return getattr(trial.recipe, name) if kind == "recipe" else getattr(trial, kind).arguments[name]


def _incompatible(request: Request) -> list[dict[str, str]]:
    from initbench.suite.labels import architecture_labels, initializer_labels

    pairs = request.plan.incompatible
    data = [pair.spec.model_dump(mode="json") for pair in pairs]
    labels = zip(architecture_labels(data), initializer_labels(data), pairs, strict=True)
    return [{"architecture": a, "initializer": i, "reason": pair.reason} for a, i, pair in labels]


def _print(request: Request, cells: list[dict[str, Any]], incompatible: list[dict[str, str]], missing: int) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(title=request.suite.name, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("architecture", "initializer", "seeds", "in the ledger", "set by rules"):
        table.add_column(column, overflow="fold")
    previous = None
    for cell in cells:
        have = ", ".join(f"{n} {status}" for status, n in cell["statuses"].items() if status != "missing")
        rules = ", ".join(f"{key}={value}" for key, value in cell["set_by_rules"].items())
        name = cell["architecture"] if cell["architecture"] != previous else ""
        previous = cell["architecture"]
        table.add_row(_plain(name), _plain(cell["initializer"]), _ranges(cell["seeds"]), have or "-", rules)
    console.print(table)
    for pair in incompatible:
        console.print(
            f"incompatible: {pair['architecture']} with {pair['initializer']}: {pair['reason']}",
            style="yellow",
            markup=False,
        )
    total = len(request.plan.trials)
    excluded = f", {request.plan.excluded} excluded" if request.plan.excluded else ""
    console.print(f"{total} trials in {len(cells)} cells: {missing} to run, {total - missing} have a result{excluded}")


def _plain(text: str) -> Any:
    """Return text in which brackets are not markup."""
    from rich.text import Text

    return Text(text)


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))
