"""What does initialization cost, and what reaches a target with the least compute in all?"""

from __future__ import annotations

import math

import numpy as np
from answering import Trials, answer, parser, records_of, trials_of
from initbench.reporting.comparison import workload_metrics
from initbench.reporting.statistics.cells import complete

from initbench.errors import InitbenchError
from initbench.reporting.compute import initialization_steps
from initbench.reporting.statistics.cost import cost_to_target, costs_to_target
from initbench.reporting.statistics.profiles import performance_profiles


def main() -> None:
    """Print for each workload and initializer the steps until a target is met, and who is the cheapest how often."""
    options = parser(str(__doc__))
    options.add_argument("--target", type=float, help="outcome, errors as a fraction; default: each workload's median")
    arguments = options.parse_args()
    found = trials_of(arguments.folder)
    if arguments.target is not None:
        check_target(arguments.target, found)
    metrics = workload_metrics(found.frame, found.metrics)
    trials = found.frame[found.frame["oriented"].notna()]
    if trials.empty:
        raise InitbenchError(f"{arguments.folder}: no trial has a result")
    records = records_of(arguments.folder)
    costs, targets = costs_to_target(trials, records, metrics)
    print("Training steps, with those that the initializer cost; medians over seeds.")
    for workload, own in trials.groupby("workload", sort=False):
        metric = metrics[str(workload)]
        target = targets[workload] if arguments.target is None else arguments.target
        if math.isnan(target):
            print(f"{workload}: no {found.terms.treatment} has a finite median {metric.title}")
            continue
        print(f"{workload}, until a {metric.title} of {metric.text(target)}:")
        for treatment, seeds in own.groupby("treatment", sort=False):
            each = [cost_to_target(records[i], target) for i in seeds["trial_id"]]
            begun = float(np.median([initialization_steps(records[i]) for i in seeds["trial_id"]]))
            print(f"  {treatment}: {cost_text(each, begun)}")
    if arguments.target is None:
        compared, *gaps = complete(costs)
        for kind, names in zip(("workloads", f"{found.terms.treatment}s"), gaps, strict=True):
            if names:
                print(f"{kind} left out below, because of gaps: {', '.join(names)}")
        profiles = performance_profiles(compared)
        for treatment in profiles.columns:
            shares = [profiles[treatment][profiles.index <= factor].iloc[-1] for factor in (1, 2, math.inf)]
            first, twice, ever = (round(share * len(compared)) for share in shares)
            print(
                f"{treatment}: the cheapest on {first} of {len(compared)} workloads, "
                f"within twice the least cost on {twice}, reaches the target on {ever}"
            )


def check_target(target: float, found: Trials) -> None:
    """Refuse a target that no outcome of the ledger can be compared with.

    Raises:
        InitbenchError: it is none.
    """
    if all(metric.unit == "%" for metric in found.metrics.values()) and not 0 <= target <= 1:
        raise InitbenchError(f"--target must be a fraction from 0 to 1, got {target}")
    if len(found.metrics) > 1:
        raise InitbenchError("--target is of one metric, and this ledger has several")


def cost_text(costs: list[float], begun: float) -> str:
    """Return the median cost of a cell, what of it was before training, and how many seeds missed the target.

    Args:
        costs: of its seeds, in training steps, +∞ for a miss, NaN where not known.
        begun: steps that the initializer cost, NaN where not known.
    """
    missed = sum(math.isinf(cost) for cost in costs)
    before = "an unknown number" if math.isnan(begun) else f"{begun:,.0f}"
    total = float(np.median(costs))
    if math.isinf(total):
        return f"not reached by {missed} of {len(costs)} seeds ({before} before training)"
    number = "an unknown number" if math.isnan(total) else f"{total:,.0f}"
    note = f", {missed} of {len(costs)} seeds missed it" if missed else f", n = {len(costs)} seeds"
    return f"{number} ({before} before training{note})"


if __name__ == "__main__":
    answer(main)
