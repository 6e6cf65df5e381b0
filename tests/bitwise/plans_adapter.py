"""What the comparison of plans knows of a tree's planner: the one place to adapt after a redesign.

Where versions differ, the forms of both are understood, and `rows_of` gives the same rows for the same plan.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Row = dict[str, Any]


def rows_of(file: str, only: list[str], folder: Path, *, smoke: bool) -> Iterator[Row]:
    """Yield the rows of a plan, in its order, as plain data.

    A row of a trial has its status, ``spec``, ``reason``, the places where it is compared and, if its data are known,
    ``id``, ``cell`` and ``identity``; the last rows are what each seed of each cell searches and comes to, what
    ``initbench plan --json`` prints, and what resolved.json would hold.

    Args:
        file: of the suite.
        only: the filters of the command line.
        folder: of the suite's ledger, which need not exist.
        smoke: plan a smoke run.

    Raises:
        InitbenchError: the suite cannot be planned.
    """
    request = import_module("initbench.cli.request").read_request(file, None, only, None, None, smoke=smoke)
    records = list(import_module("initbench.ledger").Ledger(folder).records([]))
    suite, plan = request.suite, request.plan
    if request.replan is not None:
        plan = request.replan(import_module("initbench.execution.searched").searched(records))
    compared = [("run", trial, {}) for trial in plan.trials] + [("unselected", trial, {}) for trial in plan.unselected]
    for trials, reason, key, dataset in _waiting(plan):
        known = None if dataset is None else dataset.model_dump(mode="json")
        more = {"reason": str(reason), "key": list(key), "dataset": known}
        compared += [("waiting", trial, more) for trial in trials]
    standings = import_module("initbench.comparing.treatments").standings
    labels_of = getattr(import_module("initbench.comparing.labels"), "Labels", None)  # None where standings have labels
    labels = None if labels_of is None else labels_of(suite.compare)
    places: dict[int, list[list[str]]] = {}
    for place in standings([trial.model_dump(mode="json") for _, trial, _ in compared], suite.compare):
        treatment, workload = place.treatment, place.workload
        if labels is not None:
            treatment, workload = labels.treatment(treatment), labels.workload(workload)
        places.setdefault(place.trial, []).append([treatment, workload])
    for index, (status, trial, more) in enumerate(compared):
        yield {"status": status, **_trial(trial), **more, "places": places[index]}
    for status in ("incompatible", "refused"):
        for pair in getattr(plan, status):
            yield {"status": status, **_trial(pair.spec), "reason": pair.reason, "other": _blamed(pair)}
    for own in plan.tuned:
        ids = {kind: [trial.id for trial in getattr(own, kind)] for kind in ("searches", "finals")}
        written = own.written if hasattr(own, "written") else own.row.spec
        yield {"status": "tuned", "written": written.id, **ids, "awaited": list(own.awaited)}
    statuses = {record.id: record.status for record in records}
    yield {"status": "printed", **import_module("initbench.cli.cells").plan_data(suite, plan, statuses)}
    entries = import_module("initbench.reporting.resolved").incompatible_entries(plan.refused)
    yield {"status": "resolved", **suite.resolved(), "incompatible": entries}


def _trial(trial: Any) -> Row:
    spec = {"spec": trial.model_dump(mode="json")}
    if not getattr(trial, "id", ""):  # its data are not known
        return spec
    return spec | {"id": trial.id, "cell": trial.cell, "identity": trial.identity}


def _waiting(plan: Any) -> Iterator[tuple[list[Any], Any, Any, Any]]:
    """Yield the trials that wait for files, by dataset, why they do, the dataset's key, and what it asks if known."""
    if hasattr(plan, "undescribed"):  # before a plan was a table
        for found in plan.undescribed:
            yield found.trials, found.reason, found.key, found.dataset
        return
    for dataset, rows in plan.waiting.items():
        yield [row.spec for row in rows], dataset.absent, dataset.origin.key, dataset.described


def _blamed(pair: Any) -> Any:
    return pair.other if hasattr(pair, "other") else pair.blames
