"""What does initialization cost, and what gets somewhere with the least compute in all?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.reporting.answers.treatments import left_out
from initbench.reporting.compute import initialization_steps
from initbench.reporting.formatting import capitalized, listed, percent
from initbench.reporting.formatting import steps as steps_words
from initbench.reporting.frame import natural
from initbench.reporting.parts import Answer, Column, Figure, Remark, Section, Table
from initbench.reporting.profile_chart import profile_panel
from initbench.reporting.statistics.cells import complete
from initbench.reporting.statistics.cost import costs_to_target
from initbench.reporting.statistics.intervals import wilson_estimate
from initbench.reporting.statistics.profiles import performance_profiles, performance_ratios

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric
    from initbench.reporting.statistics.wording import Terms

_SMALLEST = 2


def cost_answers(
    trials: pd.DataFrame,
    records: Sequence[TrialRecord],
    colours: Mapping[str, str],
    metrics: Mapping[str, Metric],
    terms: Terms,
) -> Section:
    """Return what initialization costs, and who reaches each workload's target with the least compute.

    Args:
        trials: as from `comparison.comparable_trials`.
        records: of these trials, with their curves.
        colours: as from `charts.colours`.
        metrics: of each workload, as from `comparison.workload_metrics`.
        terms: of the comparison.
    """
    spent = initialization_costs(trials, records)
    if not len(spent):
        return Section()
    answers = [_spent(spent)]
    parts: list[Figure | Table | Remark] = []
    costs, targets = costs_to_target(trials, {record.id: record for record in records}, metrics)
    without_gaps = complete(costs)
    whole = without_gaps.table
    if whole.shape[0] >= _SMALLEST and whole.shape[1] >= _SMALLEST:
        answers.append(_fastest(whole, terms))
        note = (
            f"On what share of the workloads {terms.one} reaches the target within a factor of the least compute, "
            "its own passes included. A workload’s target is the median of its "
            f"{terms.treatment}s’ final {terms.outcomes}."
        )
        drawing = profile_panel(
            performance_profiles(whole), "compute over the least of the workload, log scale", colours
        )
        alt = f"{note} {answers[-1]}"
        parts.append(Figure("profile-cost", "Performance profile: compute to a target", alt, drawing, note))
        unknown = spent["initialization_steps"].isna().any()
        reason = "ran everywhere with a cost that the records tell" if unknown else "ran everywhere"
        if left := left_out(without_gaps, terms, reason):
            parts.append(Remark(left))
    parts.append(_table(spent, costs, targets, metrics, terms))
    return Section({"What does initialization cost?": [Answer("over all workloads", text) for text in answers]}, parts)


def initialization_costs(trials: pd.DataFrame, records: Sequence[TrialRecord]) -> pd.DataFrame:
    """Return for each workload and treatment the median over seeds of what its initializer spent before training.

    Args:
        trials: as from `comparison.comparable_trials`.
        records: of these trials.

    Returns:
        ``workload, treatment, initialization_steps`` (in training steps of the same cost, NaN where it is not known),
        ``training_steps`` (median; NaN where none finished), ``initialization_seconds``.
    """
    by_id = {record.id: record for record in records}
    rows: list[dict[str, Any]] = []
    for (workload, treatment), cell in trials[trials["status"] != "failed"].groupby(
        ["workload", "treatment"], sort=False
    ):
        members = [by_id[i] for i in cell["trial_id"]]
        steps = [record.metrics.get("steps") for record in members if record.status == "finished"]
        seconds = [record.timing.get("initialization_seconds", math.nan) for record in members]
        rows.append(
            {
                "workload": workload,
                "treatment": treatment,
                "initialization_steps": float(np.median([initialization_steps(record) for record in members])),
                "training_steps": float(np.median([s for s in steps if s is not None] or [math.nan])),
                "initialization_seconds": float(np.median(seconds)),
            }
        )
    columns = ["workload", "treatment", "initialization_steps", "training_steps", "initialization_seconds"]
    return pd.DataFrame(rows, columns=columns)


def _spent(spent: pd.DataFrame) -> str:
    known = spent.dropna(subset=["initialization_steps"])
    own = known.groupby("treatment", sort=False)["initialization_steps"].agg(["min", "max"])
    own = own[own["max"] > 0].sort_values("max", ascending=False)
    if not len(known):
        return "Not known: the records do not say what initializers spent."
    if not len(own):
        return "No initializer spends a forward or a backward pass before training."
    texts = [f"{name} as much as {_range(row)}" for name, row in own.iterrows()]
    nothing = known["treatment"].nunique() > len(own)
    unknown = sorted(set(spent["treatment"]) - set(known["treatment"]), key=natural)
    others = "; the others spend nothing" if nothing else ""
    others += f"; of {', '.join(unknown)} it is not known" if unknown else ""
    steps = known["training_steps"].dropna()
    against = f"; training has {_range(steps)}" if len(steps) else ""
    return f"In training steps of the same cost: {', '.join(texts)}{others}{against}."


def _range(values: pd.Series[float]) -> str:
    low, high = steps_words(values.min()), steps_words(values.max())
    return low if low == high else f"{low} to {high}"


def _fastest(costs: pd.DataFrame, terms: Terms) -> str:
    first = (performance_ratios(costs) == 1).sum().sort_values(ascending=False, kind="stable")
    best, n = int(first.iloc[0]), len(costs)
    names = [str(name) for name in first.index[first == best]]
    if best == 0:
        return f"No {terms.treatment} reaches the target of any workload."
    # The one that is first most often was picked from the same workloads.
    rate = wilson_estimate(best, n, comparisons=len(first))
    ends = f"{percent(rate.low)} to {percent(rate.high)}"
    share = f"{best} of {n} workloads (95 % interval, simultaneous over {len(first)} {terms.treatment}s, {ends})"
    if len(names) > 1:
        return f"{listed(names)} each reach the target with the least compute, their own passes included, on {share}."
    return f"{names[0]} reaches the target with the least compute, its own passes included, on {share}."


def _table(
    spent: pd.DataFrame,
    costs: pd.DataFrame,
    targets: pd.Series[float],
    metrics: Mapping[str, Metric],
    terms: Terms,
) -> Table:
    to_target = (
        costs.rename_axis("workload").reset_index().melt("workload", var_name="treatment", value_name="steps_to_target")
    )
    frame = spent.merge(to_target, how="left").assign(target=spent["workload"].map(targets))
    frame["metric"] = [metrics[workload].name for workload in frame["workload"]]
    columns = [
        Column("Workload", "text", "workload"),
        Column(capitalized(terms.treatment), "text", "treatment"),
        Column("Initialization\n(training steps)", "count", "initialization_steps"),
        Column("Training\nsteps", "count", "training_steps"),
        Column(f"Target\n{terms.outcome}", "outcome", "target"),
        Column("Steps to the target,\ninitialization included", "steps", "steps_to_target"),
        Column("Initialization\ntime", "duration", "initialization_seconds"),
    ]
    return Table(
        "costs",
        f"What each {terms.treatment} costs, and when it reaches the target",
        frame,
        columns,
        "Medians over the seeds; a target that half of the seeds miss is not reached. Passes are counted as gradients: "
        "F forward passes with B calls of autograd are F · 3^(B/F) / 3 gradients, for a derivative of a derivative "
        "goes back through all that was computed so far.",
        {metric.name: metric for metric in metrics.values()},
    )
