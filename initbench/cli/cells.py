"""A plan as plain data: what `initbench plan` shows of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from initbench.comparing.labels import is_component
from initbench.suite.spec import TrialSpec
from initbench.tracking.contents import trial_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.suite.load import Suite
    from initbench.suite.planned import Plan
    from initbench.suite.spec import TrialDraft


def plan_data(suite: Suite, plan: Plan, statuses: Mapping[str, str]) -> dict[str, Any]:
    """Return what a suite comes to.

    Args:
        suite: gives its name and what it compares.
        plan: of the suite.
        statuses: trial id → status, as the ledger has them.

    Returns:
        ``suite``, ``compare``, ``cells``, ``incompatible`` (each pair once for each reason), ``undescribed`` (datasets
        whose files are absent), and the numbers ``trials``, ``missing``, ``awaited`` (trials that are known only when
        searches have results) and ``excluded``; of a suite that tunes also ``tune``, what it searches.
    """
    waiting = sum(len(found.trials) for found in plan.undescribed)
    return {
        "suite": suite.name,
        "compare": list(suite.compare),
        "cells": _cells(plan, statuses),
        "incompatible": _incompatible(plan),
        "undescribed": [
            {"dataset": found.trials[0].dataset.name, "trials": len(found.trials), "reason": str(found.reason)}
            for found in plan.undescribed
        ],
        "trials": len(plan.trials) + waiting,
        "missing": len(plan.missing(statuses)) + waiting,
        "awaited": plan.awaited,
        "excluded": plan.excluded,
    } | ({} if suite.search is None else {"tune": suite.search.resolved()})


def _cells(plan: Plan, statuses: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return one entry for each cell: its labels, what tells it apart beside them, and its trials.

    Where files of its dataset are absent, a cell and its trials have no ids: ``cell`` is None, ``trials`` is empty.
    """
    waiting = [trial for found in plan.undescribed for trial in found.trials]
    written = [tuned.written for tuned in plan.tuned]
    shown = [*(written or plan.trials), *waiting]
    every = [*shown, *plan.unselected]
    of_trial = {tuned.written.id: [*tuned.searches, *tuned.finals] for tuned in plan.tuned}
    labels = _labels(every)
    crossed = crossed_fields(shown if plan.tuned else every)
    members: dict[str, list[int]] = defaultdict(list)
    for index, trial in enumerate(shown):
        members[_cell(trial)].append(index)
    cells = []
    for indices in members.values():
        first, trials = shown[indices[0]], [shown[index] for index in indices]
        described = [trial for trial in trials if isinstance(trial, TrialSpec)]
        ids = [*dict.fromkeys(own.id for trial in described for own in of_trial.get(trial.id, [trial]))]
        cells.append(
            {
                "cell": first.cell if isinstance(first, TrialSpec) else None,
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


def _cell(trial: TrialDraft) -> str:
    return trial.cell if isinstance(trial, TrialSpec) else trial.model_dump_json(exclude={"seed"})


def _labels(trials: Sequence[TrialDraft]) -> list[dict[str, str]]:
    return trial_labels([trial.model_dump(mode="json") for trial in trials])


def crossed_fields(trials: Sequence[TrialDraft]) -> list[str]:
    """Return the fields of the recipe that vary among the trials where no rule has set them."""
    values: dict[str, set[Any]] = defaultdict(set)
    for trial in trials:
        for name, value in trial.recipe:
            if f"recipe.{name}" not in trial.set_by_rules:
                values[name].add(value)
    return [name for name, found in values.items() if len(found) > 1]


def _value(trial: TrialDraft, key: str) -> Any:
    kind, _, name = key.partition(".")
    value = trial.recipe.plain()[name] if kind == "recipe" else trial.initializer.arguments[name]
    return value["name"] if is_component(value) else value


def _incompatible(plan: Plan) -> list[dict[str, str]]:
    """Return the labels of each pair: of the architecture, and of the initializer or dataset that it is not for.

    They are told apart from those that run, too.
    """
    pairs = [pair.spec for pair in plan.incompatible]
    labels = _labels([*pairs, *_every(plan)])[: len(pairs)]
    return [
        {"architecture": found["architecture"]}
        | ({} if pair.other is None else {pair.other: found[pair.other]})
        | {"reason": pair.reason}
        for found, pair in zip(labels, plan.incompatible, strict=True)
    ]


def _every(plan: Plan) -> list[TrialDraft]:
    """Return the trials that run, those that wait for files, and those that were not selected."""
    return [*plan.trials, *(trial for found in plan.undescribed for trial in found.trials), *plan.unselected]
