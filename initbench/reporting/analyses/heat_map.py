"""The overview as a table of treatments × workloads: what each cell came to, seen at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from initbench.reporting.cells import table
from initbench.reporting.formatting import capitalized, counted
from initbench.reporting.frame import natural
from initbench.reporting.metrics import UNKNOWN
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.analyses.cost import cost_texts

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.results import Results

State = Literal["trained", "untrained", "diverged", "incompatible", "failed", "missing", "measured"]
STATES: dict[str, str] = {
    "untrained": "did not train",
    "diverged": "diverged",
    "incompatible": "cannot run",
    "failed": "failed",
    "missing": "not run",
    "measured": "not trained",
}
"""What stands in a cell that has no value to show."""
_LEAST_DISTANCE = 0.005
"""Of the distance from chance to the best value: what is nearer to the best than this has one colour."""


@dataclass(frozen=True)
class HeatCell:
    """What a treatment came to on a workload.

    Attributes:
        state: what happened.
        text: the median outcome in short, ``2.5 %``, or the state in words.
        note: how many seeds, where they did not all come to the same: ``2 of 3 seeds``.
        level: 1 for the best of the workload, 0 for chance, NaN where there is no value to colour.
        is_best: whether it is the best of its workload, or not told apart from it.
        title: all of it as a whole sentence.
    """

    state: State
    text: str
    note: str = ""
    level: float = math.nan
    is_best: bool = False
    title: str = ""


@dataclass(frozen=True)
class HeatColumn:
    """A workload.

    Attributes:
        short: ``plain-28``.
        detail: what else tells it apart, may be empty.
        label: its whole label.
        metric: the title of its outcome where workloads have several, else empty.
    """

    short: str
    detail: str
    label: str
    metric: str = ""


@dataclass(frozen=True)
class HeatRow:
    """A treatment.

    Attributes:
        short: ``delta_orthogonal``.
        detail: what else tells it apart, may be empty.
        label: its whole label.
        cells: one for each column.
        trains: on how many of the workloads that it can run on, ``2 of 2``; empty where chance is not known.
        cost: of its initialization, ``450 steps · 24 s`` or ``none``; empty where it is not known.
    """

    short: str
    detail: str
    label: str
    cells: Sequence[HeatCell]
    trains: str = ""
    cost: str = ""


@dataclass(frozen=True)
class HeatMap:
    """Treatments × workloads.

    Attributes:
        metric: what the cells show, ``test error, median of seeds``; empty where workloads have several metrics.
        lower_is_better: whether low values are the good ones; None where workloads differ in that.
        columns: the workloads, in natural order.
        rows: the treatments: those that train on most workloads first, then by their mean rank.
        treatment: the word for what is compared.
    """

    metric: str
    lower_is_better: bool | None
    columns: Sequence[HeatColumn]
    rows: Sequence[HeatRow]
    treatment: str = "initializer"

    @property
    def states(self) -> set[str]:
        """The states that occur."""
        return {cell.state for row in self.rows for cell in row.cells}

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: ``treatment, workload, text, note, level, state, is_best``, names in short."""
        rows = [
            {
                "treatment": " ".join([row.short, row.detail]).strip(),
                "workload": " ".join([column.short, column.detail]).strip(),
                **{key: getattr(cell, key) for key in ("text", "note", "level", "state", "is_best")},
            }
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]
        return pd.DataFrame(rows, columns=["treatment", "workload", "text", "note", "level", "state", "is_best"])


@dataclass(frozen=True)
class _Facts:
    """What cells are made of, once for a whole map."""

    results: Results
    cells: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    best: dict[str, set[str]] = field(default_factory=dict)


def order_of(results: Results) -> list[str]:
    """Return the treatments in the order of the map: trained on most workloads first, then by mean rank, then by name.

    The mean rank is over the workloads that a treatment ran on, by `cells.ranked`, as a share of those ranked there.
    """
    cells = results.cells
    ranks = table(results.judged, "ranked").rank(axis="columns")
    shares = ranks.div(ranks.count(axis="columns"), axis="index").mean(axis="index")
    trained = cells[cells["state"] == "trained"].groupby("treatment").size()
    names = sorted(set(results.trials["treatment"]), key=natural)
    return sorted(names, key=lambda name: (-int(trained.get(name, 0)), float(shares.get(name, np.inf))))


def not_told_apart(results: Results, workload: str) -> set[str]:
    """Return the treatments of a workload that trained and are its best, or not told apart from it.

    The differences are paired by seed; their intervals hold for all pairs of the workload at once.
    """
    own = results.judged[(results.judged["workload"] == workload) & (results.judged["state"] == "trained")]
    if not len(own):
        return set()
    trials = results.trials[results.trials["workload"] == workload]
    order = {name: place for place, name in enumerate(order_of(results))}
    first = min(own.to_dict("records"), key=lambda row: (row["ranked"], order[row["treatment"]]))["treatment"]
    among = int((results.judged["workload"] == workload).sum())
    pairs = max(1, among * (among - 1) // 2)
    found = {str(first)}
    for name in own["treatment"]:
        if name != first:
            difference = compare_paired(trials, name, first, pairs).on(workload)
            if not (difference.has_interval and difference.low > 0):
                found.add(str(name))
    return found


def heat_map(results: Results) -> HeatMap:
    """Return the map of all treatments and workloads of a report."""
    names, terms = results.names, results.terms
    rows = [{str(key): value for key, value in row.items()} for row in results.cells.to_dict("records")]
    facts = _Facts(
        results,
        {(row["treatment"], row["workload"]): row for row in rows},
        {(row["treatment"], row["workload"]): row["reason"] for row in results.refused.to_dict("records")},
        {workload: not_told_apart(results, workload) for workload in results.metric_of},
    )
    workloads = sorted(results.metric_of, key=natural)
    several = terms.metric is None
    columns = [
        HeatColumn(*names.workloads[label], label, results.metric_of[label].title if several else "")
        for label in workloads
    ]
    treatments = order_of(results)
    costs = cost_texts(results)
    known = bool(len(results.judged)) and results.judged["chance"].notna().all()
    return HeatMap(
        "" if several else f"{terms.outcome}, median of seeds",
        _direction(list(results.metric_of.values())),
        columns,
        [
            HeatRow(
                *names.treatments[name],
                name,
                [_cell(facts, name, workload) for workload in workloads],
                _trains(facts, name, workloads) if known else "",
                costs.get(name, ""),
            )
            for name in treatments
        ],
        terms.treatment,
    )


def _direction(metrics: list[Metric]) -> bool | None:
    better = {metric.better for metric in metrics}
    return better == {"lower"} if len(better) == 1 else None


def _trains(facts: _Facts, treatment: str, workloads: list[str]) -> str:
    own = [facts.cells[treatment, workload] for workload in workloads if (treatment, workload) in facts.cells]
    judged = [row for row in own if row["state"] in {"trained", "untrained", "diverged"}]
    return f"{sum(row['state'] == 'trained' for row in judged)} of {len(judged)}" if judged else "–"


def _cell(facts: _Facts, treatment: str, workload: str) -> HeatCell:
    names, metric = facts.results.names, facts.results.metric_of[workload]
    where = f"{names.treatments[treatment].text} on {names.workloads[workload].text}"
    row = facts.cells.get((treatment, workload))
    if row is None:
        reason = facts.refused.get((treatment, workload))
        state: State = "missing" if reason is None else "incompatible"
        return HeatCell(state, STATES[state], title=f"{where}: {STATES[state]}{f', because {reason}' if reason else ''}.")
    state = row["state"]
    value = metric.oriented(row["outcome"])
    text = metric.brief(value) if state == "trained" else STATES[state]
    is_best = state == "trained" and treatment in facts.best[workload]
    seeds = counted(int(row["seeds"]), "seed")
    said = {
        "trained": f"{metric.title} {metric.text(value)}, median of {seeds}",
        "untrained": f"{metric.title} {metric.text(value)}, no better than guessing, which gives "
        f"{metric.text(metric.oriented(row['chance']))}",
        "diverged": f"the loss became infinite in {int(row['diverged'])} of {seeds}",
        "failed": f"{counted(int(row['failed']), 'trial')} ended with an error",
        "measured": "measured, but not trained",
    }[state]
    best = "; the best of its column, or not told apart from it" if is_best else ""
    return HeatCell(state, text, _note(row), _level(facts, row, metric), is_best, f"{capitalized(where)}: {said}{best}.")


def _note(row: dict[str, Any]) -> str:
    """Return how many seeds came to what the cell says, where not all did."""
    seeds, diverged, failed = int(row["seeds"]), int(row["diverged"]), int(row["failed"])
    if row["state"] == "diverged":
        return f"{diverged} of {seeds}"
    if row["state"] in {"failed", "measured"}:
        return ""
    trained = seeds - diverged if math.isnan(row["trained"]) else int(row["trained"])
    if row["state"] == "trained" and trained < seeds:
        return f"{trained} of {seeds} seeds"
    if row["state"] == "untrained" and diverged:
        return f"{diverged} of {seeds} diverged"
    return f"{failed} failed" if failed else ""


def _level(facts: _Facts, row: dict[str, Any], metric: Metric) -> float:
    """Return how good the outcome of a trained cell is: 1 the best of its workload, 0 chance.

    With d the distance from the metric's best value, it is log(c / d) / log(c / d₀), d₀ that of the workload's best
    cell and c that of chance. Without a best value it is linear between the two; without chance, the worst cell of the
    workload stands in its place.
    """
    if row["state"] != "trained":
        return math.nan
    cells = facts.results.judged
    own = cells[(cells["workload"] == row["workload"]) & (cells["state"] == "trained")]
    outcome, first = row["outcome"], float(own["outcome"].min())
    worst = row["chance"] if not math.isnan(row["chance"]) else float(own["outcome"].max())
    if worst <= first:
        return 1.0
    if metric.best is None:
        return float(np.clip((worst - outcome) / (worst - first), 0, 1))
    best = metric.oriented(metric.best)
    least = _LEAST_DISTANCE * (worst - best)
    distance, smallest = max(outcome - best, least), max(first - best, least)
    if worst - best <= smallest:
        return 1.0
    return float(np.clip(math.log((worst - best) / distance) / math.log((worst - best) / smallest), 0, 1))
