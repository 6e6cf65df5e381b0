"""The heat map of treatments × workloads: the state, the text and the colour of every cell."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, natural
from initbench.comparing.names import Name
from initbench.metric import Metric
from initbench.reporting.questions.cost import cost_texts
from initbench.reporting.questions.workloads import comparison_frame
from initbench.reporting.results import Results
from initbench.reporting.sizes import mean_words, value_words
from initbench.statistics.cells import all_learn, all_train, table
from initbench.statistics.intervals import MINIMUM_SEEDS
from initbench.statistics.power import resolution
from initbench.statistics.verdicts import WorkloadOrder, workload_order

State = Literal["trained", "untrained", "diverged", "incompatible", "failed", "missing", "measured"]

STATES: Mapping[State, str] = {
    "trained": "",
    "measured": "",
    "untrained": "did not train",
    "diverged": "diverged",
    "incompatible": "cannot run",
    "failed": "failed",
    "missing": "missing",
}
"""What a cell says in place of its value."""

Mark = Literal["best", "unresolved", "worse", ""]

MARKS: Mapping[Mark, tuple[str, str]] = {
    "best": ("●", "best"),
    "unresolved": ("○", "no difference from the best was found"),
    "worse": ("▾", "worse than the best"),
}
"""The sign and the meaning of each mark. There are none below 3 seeds."""


@dataclass(frozen=True)
class HeatCell:
    """A treatment on a workload.

    Attributes:
        state: as in `cells.cells`, and ``incompatible`` and ``missing``.
        text: the median over seeds with its unit; empty if the state says everything.
        note: after the value or the state, such as ``2 of 3 seeds``.
        level: from the workload's chance level (0) to its best value (1); NaN if it has no colour.
        mark: what tests say of it beside the best of its workload, which learns at every seed; empty if they say
            nothing.
        title: a whole sentence, shown when the pointer is over the cell.
        mean: with its interval, ``2.54 ± 0.31 %`` (`sizes.mean_words`); empty if a seed diverged or is alone.
        spread: the least and the largest outcome of its seeds, ``1.9 to 2.8``; empty if a seed diverged or is alone.
        trains: whether it trains at every seed.
        is_told_apart: whether it is the best and tests find a difference from every other treatment on the workload.
    """

    state: State
    text: str = ""
    note: str = ""
    level: float = math.nan
    mark: Mark = ""
    title: str = ""
    mean: str = ""
    spread: str = ""
    trains: bool = False
    is_told_apart: bool = False

    @property
    def is_best(self) -> bool:
        """Whether it is marked as the best of its workload."""
        return self.mark == "best"

    @property
    def sign(self) -> str:
        """The sign of its mark; empty if it has none."""
        return MARKS[self.mark][0] if self.mark else ""

    @property
    def words(self) -> str:
        """What the cell says: its value, or in words why it has none."""
        return STATES[self.state] or self.text


@dataclass(frozen=True)
class _Named:
    """A row or a column with a name.

    Attributes:
        name: as the map shows it.
        label: its label.
    """

    name: Name
    label: str

    @property
    def short(self) -> str:
        """Its short name, such as ``plain-28``."""
        return self.name.short

    @property
    def detail(self) -> str:
        """The rest of its name, with the number that sentences give it, if any: ``#2: gain 2``; may be empty."""
        return f"#{self.name.number}: {self.name.detail}" if self.name.number else self.name.detail


@dataclass(frozen=True)
class HeatColumn(_Named):
    """A workload.

    Attributes:
        metric: the title of its metric if workloads have several.
        resolution: the difference that its seeds find with 80 % power, ``1.2 points``; empty if unknown.
    """

    metric: str = ""
    resolution: str = ""


@dataclass(frozen=True)
class HeatRow(_Named):
    """A treatment.

    Attributes:
        cells: one for each column.
        trains: on how many workloads that it can run it trains at every seed, ``2 of 2``; empty if unknown.
        cost: of its initialization, ``450 steps · 24 s`` or ``none``.
    """

    cells: Sequence[HeatCell]
    trains: str = ""
    cost: str = ""


@dataclass(frozen=True)
class HeatMap:
    """All cells, in the order of the page.

    Attributes:
        rows: the treatments, the one that trains on most workloads first.
        columns: the workloads.
        metric: of all values, such as ``test accuracy, median of seeds``; empty if workloads have several.
        darkest: the meaning of the colour of level 1, such as ``low error (2.5 to 2.8 %)``.
        lightest: the meaning of the colour of level 0, such as ``high (89.7 %)``.
    """

    rows: Sequence[HeatRow]
    columns: Sequence[HeatColumn]
    metric: str = ""
    darkest: str = "best"
    lightest: str = "worst"

    @property
    def cells(self) -> list[HeatCell]:
        """Every cell, by row."""
        return [cell for row in self.rows for cell in row.cells]

    @property
    def numbered(self) -> list[Name]:
        """The names that sentences give by a number, in the order of the numbers."""
        names = [entry.name for entry in (*self.rows, *self.columns) if entry.name.number]
        return sorted(names, key=lambda name: (name.short, name.number))

    @property
    def states(self) -> set[State]:
        """Which states occur."""
        return {cell.state for cell in self.cells}

    def treatments_in(self, state: State) -> dict[str, tuple[str, ...]]:
        """Return the workloads on which treatments are in a state, each with the labels of these treatments."""
        labels = {
            column.label: tuple(row.label for row in self.rows if row.cells[index].state == state)
            for index, column in enumerate(self.columns)
        }
        return {workload: treatments for workload, treatments in labels.items() if treatments}

    @property
    def has_levels(self) -> bool:
        """Whether any value has a colour."""
        return any(not math.isnan(cell.level) and not STATES[cell.state] for cell in self.cells)

    @property
    def marks(self) -> list[tuple[str, str]]:
        """The signs that occur, each with its meaning."""
        return [meaning for mark, meaning in MARKS.items() if any(cell.mark == mark for cell in self.cells)]

    @property
    def unit(self) -> str:
        """The unit of all values, empty if they have none or several."""
        values = [cell.text.split(maxsplit=1) for cell in self.cells if cell.state == "trained"]
        units = {" ".join(value[1:]) for value in values}
        return units.pop() if len(units) == 1 else ""

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: ``treatment, workload, state, text, note, level, is_best, mark``; names are short ones."""
        names = ["treatment", "workload", "state", "text", "note", "level", "is_best", "mark"]
        rows = [
            (row.name.text, column.name.text, cell.state, cell.words, cell.note, cell.level, cell.is_best, cell.mark)
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]
        return pd.DataFrame(rows, columns=names)


_LEAST_DISTANCE = 0.005
"""A share of the distance from chance to the best value; whatever is nearer to the best has one colour."""


class _Facts(NamedTuple):
    """What all cells of a map are made from; pairs are a treatment and a workload."""

    results: Results
    cells: Mapping[tuple[str, str], dict[str, Any]]
    refused: Mapping[tuple[str, str], str]
    orders: Mapping[str, WorkloadOrder]
    compared: Mapping[tuple[str, str], Mapping[Hashable, Any]]
    seed_range: Mapping[Hashable, tuple[float, float]]
    """The least and the largest outcome of the seeds of a pair."""
    cell_range: Mapping[Hashable, tuple[float, float]]
    """The best and the worst outcome of the trained cells of a workload."""


def order_of(results: Results) -> list[str]:
    """Return the treatments in the order of the map: training on most workloads first, then by mean rank, then by name.

    The mean rank is over the workloads that a treatment ran on, by `cells.ranked`, as a share of those ranked there.
    """
    cells = results.cells
    ranks = table(results.judged, "ranked").rank(axis="columns")
    shares = ranks.div(ranks.count(axis="columns"), axis="index").mean(axis="index")
    trained = cells[all_train(cells)].groupby("treatment").size()
    names = sorted(set(results.trials["treatment"]), key=natural)
    return sorted(names, key=lambda name: (-int(trained.get(name, 0)), float(shares.get(name, np.inf))))


def heat_map(results: Results) -> HeatMap:
    """Return the map of all treatments and workloads of a report."""
    names, metrics = results.names, results.metric_of
    cells = results.cells.assign(all_train=all_train(results.cells))
    rows = [{str(key): value for key, value in row.items()} for row in cells.to_dict("records")]
    means = comparison_frame(results)[["treatment", "workload", "outcome_mean", "outcome_interval"]]
    facts = _Facts(
        results,
        {(row["treatment"], row["workload"]): row for row in rows},
        {(row["treatment"], row["workload"]): row["reason"] for row in results.refused.to_dict("records")},
        {
            str(workload): workload_order(group, results.suite_verdicts[str(workload)])
            for workload, group in results.cells.groupby("workload", sort=False)
        },
        {(row["treatment"], row["workload"]): row for row in means.to_dict("records")},
        _ranges(results.trials, ["treatment", "workload"]),
        _ranges(results.judged[results.judged["state"] == "trained"], ["workload"]),
    )
    several = results.terms.metric is None
    columns = [
        HeatColumn(names.workloads[label], label, metrics[label].title if several else "", _resolution(results, label))
        for label in sorted(metrics, key=natural)
    ]
    costs = cost_texts(results)
    is_chance_known = bool(len(results.judged)) and results.judged["chance"].notna().all()
    return HeatMap(
        [
            HeatRow(
                names.treatments[label],
                label,
                [_cell(facts, label, column.label) for column in columns],
                _trains(facts, label) if is_chance_known else "",
                costs.get(label, ""),
            )
            for label in order_of(results)
        ],
        columns,
        "" if several else f"{results.terms.outcome}, median of seeds",
        *_ends(results),
    )


def _ranges(rows: pd.DataFrame, by: list[str]) -> dict[Hashable, tuple[float, float]]:
    """Return the least and the largest outcome of each group."""
    ends = rows.groupby(by)["outcome"].agg(["min", "max"])
    return {group: (low, high) for group, low, high in ends.itertuples(name=None)}


def _resolution(results: Results, workload: str) -> str:
    verdicts, variance = results.suite_verdicts[workload], results.variances.outcome.get(workload)
    learning = results.judged[all_learn(results.judged) & (results.judged["workload"] == workload)]
    if variance is None or len(learning) < 2 or learning["seeds"].min() < MINIMUM_SEEDS:
        return ""
    comparisons = max(verdict.comparisons for verdict in verdicts)
    size = (len(learning), len(results.metric_of), comparisons)
    difference = resolution(variance, int(learning["seeds"].min()), *size)
    metric = results.metric_of[workload]
    if not 0 < difference < metric.largest_difference:
        return ""
    value = metric.scale * difference
    digits = max(0, 1 - math.floor(math.log10(value)))  # two of them are enough
    return f"{value:,.{digits}f} {metric.points}".rstrip()


def _ends(results: Results) -> tuple[str, str]:
    """Return what the darkest and the lightest colour mean: ``low error (2.5 to 2.8 %)`` and ``high (89.7 %)``."""
    metrics, trained = list(results.metric_of.values()), results.judged[results.judged["state"] == "trained"]
    if not len(trained) or len({(metric.better, metric.quantity) for metric in metrics}) != 1:
        return "best", "worst"
    on_each = trained.groupby("workload")
    ends = (on_each["outcome"].min(), on_each["chance"].first().fillna(on_each["outcome"].max()))
    words = ("low", "high") if metrics[0].better == "lower" else ("high", "low")
    darkest, lightest = (
        value_words([metrics[0].oriented(value) for value in values], metrics[0].beside_title) for values in ends
    )
    return f"{words[0]} {metrics[0].quantity} ({darkest})", f"{words[1]} ({lightest})"


def _trains(facts: _Facts, treatment: str) -> str:
    rows = [row for (name, _), row in facts.cells.items() if name == treatment]
    judged = [row for row in rows if row["state"] in {"trained", "untrained", "diverged"}]
    if any(math.isnan(row["trained"]) and not math.isnan(row["chance"]) for row in judged):
        return "–"  # the split is too small to tell training from guessing
    return f"{sum(row['all_train'] for row in judged)} of {len(judged)}" if judged else "–"


def _cell(facts: _Facts, treatment: str, workload: str) -> HeatCell:
    names, metric = facts.results.names, facts.results.metric_of[workload]
    where = f"{names.treatments[treatment].text} on {names.workloads[workload].text}"
    row = facts.cells.get((treatment, workload))
    if row is None:
        reason = facts.refused.get((treatment, workload))
        if reason is None:
            return HeatCell("missing", title=f"{where} has no result.")
        return HeatCell("incompatible", title=f"{where} cannot run: {reason}.")
    state, value = row["state"], metric.oriented(row["outcome"])
    shown = metric.beside_title  # the map or its column is headed by the title
    text = {"trained": shown.brief(value), "measured": "not trained"}.get(state, "")
    order = facts.orders[workload]
    mark = _mark(order, treatment, row)
    seeds = counted(int(row["seeds"]), "seed")
    words = {
        "trained": f"{metric.title} {shown.text(value)}, median of {seeds}",
        "untrained": f"{metric.title} {shown.text(value)}, no better than guessing, which gives "
        f"{shown.text(metric.oriented(row['chance']))}",
        "diverged": f"the loss became infinite in {int(row['diverged'])} of {seeds}",
        "failed": f"{counted(int(row['failed']), 'trial')} ended with an error",
        "measured": "measured, but not trained",
    }[state]
    meaning = f"; {MARKS[mark][1]}" if mark else ""
    return HeatCell(
        state,
        text,
        _note(row),
        _level(facts, row, metric),
        mark,
        f"{where}: {words}{meaning}.",
        _mean(facts.compared[treatment, workload], shown),
        _spread(facts.seed_range[treatment, workload], row, shown) if state == "trained" else "",
        bool(row["all_train"]),
        mark == "best" and bool(order.verdicts) and all(verdict.side < 0 for verdict in order.verdicts.values()),
    )


def _mark(order: WorkloadOrder, treatment: str, row: Mapping[str, Any]) -> Mark:
    """Return the mark of a cell: the best learns at every seed; a mean of seeds that disagree is never compared."""
    if row["state"] != "trained" or row["seeds"] < MINIMUM_SEEDS or not len(order.outcomes):
        return ""
    if treatment == order.best:
        return "best"
    return "worse" if treatment in order.behind else "unresolved"


def _spread(ends: tuple[float, float], row: Mapping[str, Any], metric: Metric) -> str:
    if row["seeds"] < 2 or row["diverged"]:
        return ""
    low, high = (metric.brief(end, unit=False) for end in ends)
    return f"{low} to {high}" if low != high else ""


def _mean(row: Mapping[Hashable, Any], metric: Metric) -> str:
    """Return the mean with its interval, empty if there is no interval."""
    mean, half_width = row["outcome_mean"], row["outcome_interval"]
    return "" if math.isnan(half_width) else mean_words(mean, half_width, metric)


def _note(row: dict[str, Any]) -> str:
    """Return how many seeds train, unless all do; in other states how many diverged or failed, if any."""
    seeds, diverged, failed = int(row["seeds"]), int(row["diverged"]), int(row["failed"])
    if row["state"] == "diverged":
        return f"{diverged} of {seeds}"
    if row["state"] in {"failed", "measured"}:
        return ""
    training = seeds - diverged if math.isnan(row["trains"]) else int(row["trains"])
    if row["state"] == "trained" and training < seeds:
        return f"{training} of {seeds} seeds"
    if row["state"] == "untrained" and diverged:
        return f"{diverged} of {seeds} diverged"
    return f"{failed} failed" if failed else ""


def _level(facts: _Facts, row: dict[str, Any], metric: Metric) -> float:
    """Return how good the outcome of a trained cell is, from chance (0) to the best cell of its workload (1).

    With d the distance from the metric's best value, it is log(c / d) / log(c / d₀), where d₀ is the distance of the
    workload's best cell and c the distance of chance. Without a best value it is linear between the two; if chance is
    unknown, the worst cell of the workload takes its place.
    """
    if row["state"] != "trained":
        return math.nan
    outcome, (first, last) = row["outcome"], facts.cell_range[row["workload"]]
    worst = last if math.isnan(row["chance"]) else row["chance"]
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
