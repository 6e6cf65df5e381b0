"""The cost of initializers in training steps, and the cost of reaching a target with them.

A record is a trial's, as stored in a ledger.
"""

from __future__ import annotations

import math
from statistics import median_high, median_low
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
    """Return the cost of `forward` passes and `backward` calls of autograd, in gradients of one batch.

    A gradient is one forward pass and one backward pass, which costs twice as much: 3 passes. A derivative of a
    derivative goes back through everything computed so far, so each call multiplies it by 3: F forward passes with B
    calls cost F · 3^(B/F) passes. A step of MetaInit (1 and 3) is thus 9 gradients; 9.5 to 10.7 were measured.
    """
    forward, backward = cost.get("forward", 0), cost.get("backward", 0)
    return float(forward * 3 ** (backward / forward) / 3 if forward else backward * 2 / 3)


def initialization_steps(record: Any) -> float:
    """Return the cost of an initialization in training steps; NaN if the record does not contain it.

    Its batches may have another size than in training: gradients are counted by their samples.
    """
    cost = record.initialization.get("cost")
    if not cost:
        return math.nan
    recipe, batch_size = record.spec["recipe"], record.spec["initializer"]["arguments"].get("batch_size")
    if batch_size and recipe.get("batch_tokens"):  # steps differ in their samples
        return math.nan
    trained = float(recipe["batch_size"])
    batch_size = float(batch_size or trained)
    return gradient_equivalents(cost) * batch_size / trained


def on_one_device(records: Iterable[Any]) -> bool:
    """Return whether all trials with a result ran on one kind of device; otherwise seconds are not comparable.

    Processors are distinguished by their capabilities, GPUs by their names, whatever processor serves them.
    """
    devices = set()
    for record in records:
        if record.status != "failed":
            device = record.environment.get("device")
            devices.add((device, record.environment.get("processor") if device == "cpu" else None))
    return len(devices) <= 1


class Spending(NamedTuple):
    """The cost of a treatment's initializer before training, over its workloads.

    Attributes:
        treatment: its label.
        least: equivalent training steps, on the workload with the fewest.
        most: on the workload with the most.
        least_times: the least of its ratios to the workload's training steps, NaN if these are unknown everywhere.
        most_times: the largest.
    """

    treatment: str
    least: float
    most: float
    least_times: float
    most_times: float


class Spent(NamedTuple):
    """The cost of initializers before training.

    Attributes:
        spending: the treatments with a cost, the largest first.
        nothing: treatments that are known to have no cost.
        unknown: treatments whose cost no record contains.
    """

    spending: list[Spending]
    nothing: list[str]
    unknown: list[str]

    @property
    def is_known(self) -> bool:
        return bool(self.spending or self.nothing)


def spent(costs: pd.DataFrame) -> Spent:
    """Return the cost of initializers, by treatment.

    Args:
        costs: one row per workload and treatment: ``treatment``, ``initialization_steps`` (NaN if unknown) and
            ``training_steps`` (NaN if none finished).
    """
    spending: list[Spending] = []
    nothing: list[str] = []
    unknown: list[str] = []
    for treatment, rows in costs.groupby("treatment", sort=False):
        steps = rows["initialization_steps"].dropna()
        if not len(steps):
            unknown.append(str(treatment))
        elif steps.max() == 0:
            nothing.append(str(treatment))
        else:
            times = (rows["initialization_steps"] / rows["training_steps"].where(rows["training_steps"] > 0)).dropna()
            ends = (float(times.min()), float(times.max())) if len(times) else (math.nan, math.nan)
            spending.append(Spending(str(treatment), float(steps.min()), float(steps.max()), *ends))
    spending.sort(key=lambda one: -one.most)
    return Spent(spending, nothing, unknown)


def cost_to_target(record: Any, target: float) -> float:
    """Return the steps until the outcome first reaches a target, including the initializer's; +∞ if never.

    The initializer's steps are `initialization_steps`; if the record does not contain its cost, the cost of a target
    that is reached is NaN.

    Args:
        record: with its history, as from `Ledger.records` or `read_records`; if the history is per epoch, so is
            the result.
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
    """Return the cost of each cell to its workload's target, for `profiles.performance_profiles`.

    The target of a workload is what one of its cells reached at more than half of its seeds at the end: the outcome of
    its middle seed, or of the worse of two middle ones. The cell is the middle one of those with a finite outcome, the
    better of two middle ones; or, if it did not train, the worst of those that did. So the target never falls between
    two groups of cells or of seeds, and the better cells reach it. A cell's cost is the median of `cost_to_target` over
    its seeds, so it is +∞ if at least half of them miss.

    Args:
        trials: as from `trials.comparable_trials`.
        records: with histories, by trial id.
        metrics: metric of each workload, as from `trials.workload_metrics`.
        target: a target for all workloads instead, in the metric's own direction.

    Returns:
        The costs in training steps, workloads × treatments, +∞ for a miss, NaN for a cell that was not run or whose
        initializer's cost is unknown; and the targets by workload, in the metric's own direction, NaN if nothing
        trains, which all cells miss.
    """
    results = trial_outcomes(trials)
    outcomes = results.groupby(["workload", "treatment"], sort=False)["outcome"].agg(median_high)
    compared = cells(trials).set_index(["workload", "treatment"]).reindex(outcomes.index)
    trained = (compared["state"] == "trained") & ~(2 * compared["trained"] <= compared["seeds"])  # NaN if unknown
    workloads = sorted(set(results["workload"]), key=natural)
    middle = outcomes[np.isfinite(outcomes)].groupby("workload").agg(median_low).reindex(workloads)
    worst = outcomes[trained].groupby("workload").max().reindex(workloads)
    targets = middle.clip(upper=worst).where(worst.notna()).rename("target")
    for workload in workloads:
        targets[workload] = metrics[workload].oriented(targets[workload]) if target is None else target
    each = [
        cost_to_target(records[trial], targets[workload])
        for trial, workload in zip(results["trial_id"], results["workload"], strict=True)
    ]
    by_cell = results.assign(cost=each).groupby(["workload", "treatment"], sort=False)["cost"]
    costs = by_cell.agg(lambda seeds: float(np.median(seeds))).reset_index()
    return table(costs, "cost"), targets
