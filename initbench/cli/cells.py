"""A plan as plain data, for `initbench plan`."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from initbench.comparing.labels import is_component
from initbench.suite.load import Suite
from initbench.suite.plan import Plan
from initbench.suite.spec import TrialSpec
from initbench.tracking.contents import trial_labels


def plan_data(suite: Suite, plan: Plan, statuses: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan of a suite as plain data; `statuses` gives the status of each trial in the ledger.

    ``incompatible`` has each pair once for each reason, and ``undescribed`` the datasets whose files are absent.
    ``awaited`` is the number of trials that depend on the results of searches. Only a suite that tunes has ``tune``.
    """
    waiting = sum(map(len, plan.waiting.values()))
    return {
        "suite": suite.name,
        "compare": list(suite.compare),
        "cells": _cells(plan, statuses),
        "incompatible": _incompatible(plan),
        "undescribed": [
            {"dataset": dataset.spec.name, "trials": len(rows), "reason": str(dataset.absent)}
            for dataset, rows in plan.waiting.items()
        ],
        "trials": len(plan.trials) + waiting,
        "missing": len(plan.missing(statuses)) + waiting,
        "awaited": plan.awaited,
        "excluded": plan.excluded,
    } | ({} if suite.search is None else {"tune": suite.search.resolved()})


def _cells(plan: Plan, statuses: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one entry for each cell: its labels, the recipe fields that distinguish it, and its trials.

    If files of its dataset are absent, a cell and its trials have no ids: ``cell`` is None and ``trials`` is empty.
    """
    written = [tuned.row.spec for tuned in plan.tuned]
    shown = [*(written or plan.trials), *_waiting(plan)]
    every = [*shown, *plan.unselected]
    of_trial = {tuned.row.spec.id: [*tuned.searches, *tuned.finals] for tuned in plan.tuned}
    labels = _labels(every)
    crossed = crossed_fields(shown if plan.tuned else every)
    members: dict[str, list[int]] = defaultdict(list)
    for index, trial in enumerate(shown):
        members[_cell(trial)].append(index)
    cells = []
    for indices in members.values():
        first, trials = shown[indices[0]], [shown[index] for index in indices]
        described = [trial for trial in trials if trial.id]
        ids = [*dict.fromkeys(spec.id for trial in described for spec in of_trial.get(trial.id, [trial]))]
        cells.append(
            {
                "cell": first.cell if first.id else None,
                **labels[indices[0]],
                "recipe": {name: value for name, value in first.recipe.plain().items() if name in crossed},
                "set_by_rules": {key: _value(first, key) for key in first.set_by_rules},
                "scheme_named_by": list(first.scheme_named_by),
                "seeds": [trial.seed for trial in trials],
                "trials": ids,
                "statuses": dict(Counter(statuses.get(i, "missing") for i in ids)) or {"missing": len(trials)},
            }
        )
    return cells


def _waiting(plan: Plan) -> list[TrialSpec]:
    return [row.spec for rows in plan.waiting.values() for row in rows]


def _cell(trial: TrialSpec) -> str:
    return trial.cell if trial.id else trial.model_dump_json(exclude={"seed"})


def _labels(trials: Sequence[TrialSpec]) -> list[dict[str, str]]:
    return trial_labels([trial.model_dump(mode="json") for trial in trials])


def crossed_fields(trials: Sequence[TrialSpec]) -> list[str]:
    """Return the fields of the recipe that vary among the trials and are not set by rules."""
    values: dict[str, set[Any]] = defaultdict(set)
    for trial in trials:
        for name, value in trial.recipe:
            if f"recipe.{name}" not in trial.set_by_rules:
                values[name].add(value)
    return [name for name, levels in values.items() if len(levels) > 1]


def _value(trial: TrialSpec, key: str) -> Any:
    kind, _, name = key.partition(".")
    value = trial.recipe.plain()[name] if kind == "recipe" else trial.initializer.arguments[name]
    return value["name"] if is_component(value) else value


def _incompatible(plan: Plan) -> list[dict[str, str]]:
    """Return the labels of each pair: of the architecture, and of the initializer or dataset that does not fit it.

    The labels also distinguish the pairs from the cells that run.
    """
    pairs = [pair.spec for pair in plan.incompatible]
    labels = _labels([*pairs, *plan.trials, *_waiting(plan), *plan.unselected])[: len(pairs)]
    return [
        {"architecture": labelled["architecture"]}
        | ({} if pair.blames is None else {pair.blames: labelled[pair.blames]})
        | {"reason": pair.reason}
        for labelled, pair in zip(labels, plan.incompatible, strict=True)
    ]
