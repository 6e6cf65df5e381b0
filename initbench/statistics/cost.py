"""What initializers cost, in the unit of training, steps; and what it costs with them to reach a target.

A record is a trial's, as a ledger holds it.
"""

from __future__ import annotations

import math
from statistics import median_low
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from initbench.comparing.formatting import natural
from initbench.comparing.metrics import has_outcome, outcome_key, outcome_sign
from initbench.statistics.cells import cells, table, trial_outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

    from initbench.metric import Metric


def gradient_equivalents(cost: Mapping[str, int]) -> float:
    """Return what `forward` passes and `backward` calls of autograd cost, in gradients of one batch.

    A gradient is one forward pass and one backward pass, which costs twice as much: 3 passes. A derivative of a
    derivative goes back through all that was computed so far, so each call multiplies it by 3: F forward passes
    with B calls cost F · 3^(B/F) passes. A step of MetaInit (1 and 3) is thus 9 gradients; 9.5 to 10.7 were measured.
    """
    forward, backward = cost.get("forward", 0), cost.get("backward", 0)
    return float(forward * 3 ** (backward / forward) / 3 if forward else backward * 2 / 3)


def initialization_steps(record: Any) -> float:
    """Return how many training steps an initialization cost; NaN where the record does not say what it spent.

    Its batches may be of another size than those of training: gradients are counted by their samples.
    """
    cost = record.initialization.get("cost")
    if not cost:
        return math.nan
    trained = float(record.spec["recipe"]["batch_size"])
    own = float(record.spec["initializer"]["arguments"].get("batch_size") or trained)
    return gradient_equivalents(cost) * own / trained


def on_one_device(records: Iterable[Any]) -> bool:
    """Return whether all trials that came to a result ran on one kind of device: seconds of two are not comparable.

    A processor is named with what it can do; a GPU by its name, whatever processor serves it.
    """
    devices = set()
    for record in records:
        if record.status != "failed":
            device = record.environment.get("device")
            devices.add((device, record.environment.get("processor") if device == "cpu" else None))
    return len(devices) <= 1


class Spending(NamedTuple):
    """What a treatment's initializer spent before training, over its workloads.

    Attributes:
        treatment: its label.
        least: training steps of the same cost, on the workload with the fewest.
        most: on that with the most.
        least_times: the least of its ratios to the workload's training steps, NaN where these are nowhere known.
        most_times: the largest.
    """

    treatment: str
    least: float
    most: float
    least_times: float
    most_times: float


class Spent(NamedTuple):
    """What initializers spent before training.

    Attributes:
        spending: the treatments that spent anything, the most first.
        nothing: those that are known to have spent nothing.
        unknown: those of which no record says what they spent.
    """

    spending: list[Spending]
    nothing: list[str]
    unknown: list[str]

    @property
    def is_known(self) -> bool:
        """Whether anything is known of any."""
        return bool(self.spending or self.nothing)


def spent(costs: pd.DataFrame) -> Spent:
    """Return what initializers spent, by treatment.

    Args:
        costs: one row per workload and treatment: ``treatment``, ``initialization_steps`` (NaN where not known) and
            ``training_steps`` (NaN where none finished).
    """
    spending: list[Spending] = []
    nothing: list[str] = []
    unknown: list[str] = []
    for treatment, own in costs.groupby("treatment", sort=False):
        steps = own["initialization_steps"].dropna()
        if not len(steps):
            unknown.append(str(treatment))
        elif steps.max() == 0:
            nothing.append(str(treatment))
        else:
            times = (own["initialization_steps"] / own["training_steps"].where(own["training_steps"] > 0)).dropna()
            ends = (float(times.min()), float(times.max())) if len(times) else (math.nan, math.nan)
            spending.append(Spending(str(treatment), float(steps.min()), float(steps.max()), *ends))
    spending.sort(key=lambda one: -one.most)
    return Spent(spending, nothing, unknown)


def cost_to_target(record: Any, target: float) -> float:
    """Return the steps until the outcome is first as good as a target, with those of the initializer; +∞ if never.

    The initializer's are `initialization_steps`; where the record does not say what it used, the cost of a
    target that is met is NaN.

    Args:
        record: with its history, as from `Ledger.records` or `records.read_records`. Where that is per epoch, so is the
            answer.
        target: in the metric's own direction; NaN is never reached.
    """
    key = outcome_key(record)
    known = [entry for entry in record.history if entry.get(key) is not None] if has_outcome(record) else []
    sign = outcome_sign(record) if known else 1.0
    for entry in known:
        if sign * entry[key] <= sign * target:
            return initialization_steps(record) + float(entry["step"])
    return math.inf


def costs_to_target(
    trials: pd.DataFrame,
    records: Mapping[str, Any],
    metrics: Mapping[str, Metric],
    target: float | None = None,
) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Return the cost of each cell to the target of its workload: what `profiles.performance_profiles` takes.

    The target of a workload is an outcome that one of its cells reached (`cells.cells`: the median over seeds at the
    end): that of the middle one of all whose outcome is finite, of two middle ones the better; where that one does not
    train, that of the worst cell which does. So it never lies between two camps, and both have their better cells at it
    or beyond. A cell's cost is the median over its seeds of `cost_to_target`, so that it is +∞ where at least half of
    them miss.

    Args:
        trials: as from `trials.comparable_trials`.
        records: with histories, by trial id.
        metrics: of each workload, as from `trials.workload_metrics`.
        target: that of all workloads, in the metric's own direction, in place of those.

    Returns:
        The costs in training steps, workloads × treatments, +∞ for a miss, NaN for a cell that was not run or whose
        initializer's cost is not known; and the targets by workload, in the metric's own
        direction, NaN where nothing trains, which all miss.
    """
    compared = cells(trials)
    compared = compared[compared["outcome"].notna()]
    finite = compared[np.isfinite(compared["outcome"])]
    workloads = sorted(set(compared["workload"]), key=natural)
    middle = finite.groupby("workload")["outcome"].agg(median_low).reindex(workloads)
    worst = compared[compared["state"] == "trained"].groupby("workload")["outcome"].max().reindex(workloads)
    targets = middle.clip(upper=worst).where(worst.notna()).rename("target")
    results = trial_outcomes(trials)
    for workload in workloads:
        targets[workload] = metrics[workload].oriented(targets[workload]) if target is None else target
    each = [
        cost_to_target(records[trial], targets[workload])
        for trial, workload in zip(results["trial_id"], results["workload"], strict=True)
    ]
    by_cell = results.assign(cost=each).groupby(["workload", "treatment"], sort=False)["cost"]
    costs = by_cell.agg(lambda seeds: float(np.median(seeds))).reset_index()
    return table(costs, "cost"), targets
