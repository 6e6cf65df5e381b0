"""What stands in each cell of the heat map: a treatment on a workload, from the cells of the report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.comparing.formatting import counted, natural
from initbench.reporting.analyses.heat_map import HeatCell, HeatColumn, HeatMap, HeatRow
from initbench.reporting.questions.cost import cost_texts
from initbench.reporting.questions.workloads import comparison_frame, workload_orders
from initbench.statistics.cells import table
from initbench.statistics.intervals import MINIMUM_SEEDS
from initbench.statistics.paired import compare_paired

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.statistics.verdicts import WorkloadOrder

_LEAST_DISTANCE = 0.005
"""Of the distance from chance to the best value: what is nearer to the best than this has one colour."""


@dataclass(frozen=True)
class _Facts:
    """What cells are made of, once for a whole map."""

    results: Results
    cells: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refused: dict[tuple[str, str], str] = field(default_factory=dict)
    orders: dict[str, WorkloadOrder] = field(default_factory=dict)
    compared: dict[tuple[str, str], Mapping[Hashable, Any]] = field(default_factory=dict)


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


def heat_map(results: Results) -> HeatMap:
    """Return the map of all treatments and workloads of a report."""
    names, terms = results.names, results.terms
    rows = [{str(key): value for key, value in row.items()} for row in results.cells.to_dict("records")]
    means = comparison_frame(results)[["treatment", "workload", "outcome_mean", "outcome_interval"]]
    facts = _Facts(
        results,
        {(row["treatment"], row["workload"]): row for row in rows},
        {(row["treatment"], row["workload"]): row["reason"] for row in results.refused.to_dict("records")},
        workload_orders(results),
        {(row["treatment"], row["workload"]): row for row in means.to_dict("records")},
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
    darkest, lightest = _ends(list(results.metric_of.values()))
    return HeatMap(
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
        columns,
        "" if several else f"{terms.outcome}, median of seeds",
        darkest,
        lightest,
    )


def _ends(metrics: list[Metric]) -> tuple[str, str]:
    """Return what the darkest and the lightest colour mean."""
    if len(metrics) != 1 and len({(metric.better, metric.quantity) for metric in metrics}) != 1:
        return "best", "worst"
    low, high = f"low {metrics[0].quantity}", f"high {metrics[0].quantity}"
    return (low, "high") if metrics[0].better == "lower" else (high, "low")


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
        if reason is None:
            return HeatCell("missing", title=f"{where} has no result.")
        return HeatCell("incompatible", title=f"{where} cannot run: {reason}.")
    state = row["state"]
    value = metric.oriented(row["outcome"])
    shown = metric.beside_title  # the map or its column is headed by the title
    text = {"trained": shown.brief(value), "measured": "not trained"}.get(state, "")
    order = facts.orders[workload]
    is_best = state == "trained" and treatment in order.leading
    seeds = counted(int(row["seeds"]), "seed")
    said = {
        "trained": f"{metric.title} {shown.text(value)}, median of {seeds}",
        "untrained": f"{metric.title} {shown.text(value)}, no better than guessing, which gives "
        f"{shown.text(metric.oriented(row['chance']))}",
        "diverged": f"the loss became infinite in {int(row['diverged'])} of {seeds}",
        "failed": f"{counted(int(row['failed']), 'trial')} ended with an error",
        "measured": "measured, but not trained",
    }[state]
    best = "; the best of its column, or not told apart from it" if is_best else ""
    told = is_best and order.leading == [treatment] and order.compared > 1 and _is_ahead(facts.results, workload, order)
    mean = _mean(facts.compared[treatment, workload], shown)
    return HeatCell(state, text, _note(row), _level(facts, row, metric), is_best, f"{where}: {said}{best}.", mean, told)


def _is_ahead(results: Results, workload: str, order: WorkloadOrder) -> bool:
    """Return whether the best of a workload is told apart from those that did not train, and from those that diverged.

    From the former as from those that did train. A diverged trial has no difference: there all seeds have to agree,
    three or more of each.
    """
    cells, trials = results.judged, results.trials
    own, on = cells[cells["workload"] == workload].set_index("treatment"), trials[trials["workload"] == workload]
    best = own.loc[order.best]
    if best["seeds"] < MINIMUM_SEEDS or best["diverged"]:
        return False
    lost = own[own["state"] == "diverged"]
    if (lost["diverged"] < lost["seeds"]).any() or (lost["seeds"] < MINIMUM_SEEDS).any():
        return False
    behind = (compare_paired(on, order.best, str(name), order.comparisons) for name in order.untrained.index)
    return all(comparison.on(workload).side() < 0 for comparison in behind)


def _mean(row: Mapping[Hashable, Any], metric: Metric) -> str:
    """Return the mean with half the width of its interval, empty where a seed diverged or there is no interval."""
    mean, half_width = row["outcome_mean"], row["outcome_interval"]
    return "" if math.isnan(half_width) else metric.text(mean, half_width)


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
