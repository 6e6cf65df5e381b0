"""What does initialization cost, and which initializer reaches a test error with the least compute in all?"""

from __future__ import annotations

import math

import numpy as np
from answering import answer, parser, records_of, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.compute import initialization_steps
from initbench.reporting.formatting import percent
from initbench.reporting.statistics.cells import complete
from initbench.reporting.statistics.cost import cost_to_target, costs_to_target
from initbench.reporting.statistics.profiles import performance_profiles


def main() -> None:
    """Print for each workload and initializer the steps until a target is met, and who is the cheapest how often."""
    options = parser(str(__doc__))
    options.add_argument("--target", type=float, help="test error as a fraction; default: each workload's median")
    arguments = options.parse_args()
    if arguments.target is not None and not 0 <= arguments.target <= 1:
        raise InitbenchError(f"--target must be a fraction from 0 to 1, got {arguments.target}")
    trials = trials_of(arguments.folder)
    trials = trials[trials["status"] != "failed"]
    if trials.empty:
        raise InitbenchError(f"{arguments.folder}: no trial has a result")
    records = records_of(arguments.folder)
    costs, targets = costs_to_target(trials, records)
    print("Training steps, with those that the initializer cost; medians over seeds.")
    for group, own in trials.groupby("group", sort=False):
        target = targets[group] if arguments.target is None else arguments.target
        if math.isnan(target):
            print(f"{group}: no initializer has a finite median test error")
            continue
        print(f"{group}, until a test error of {percent(target)}:")
        for initializer, seeds in own.groupby("initializer", sort=False):
            each = [cost_to_target(records[i], target) for i in seeds["trial_id"]]
            begun = float(np.median([initialization_steps(records[i]) for i in seeds["trial_id"]]))
            print(f"  {initializer}: {cost_text(each, begun)}")
    if arguments.target is None:
        compared, *gaps = complete(costs)
        for kind, names in zip(("workloads", "initializers"), gaps, strict=True):
            if names:
                print(f"{kind} left out below, because of gaps: {', '.join(names)}")
        profiles = performance_profiles(compared)
        for initializer in profiles.columns:
            shares = [profiles[initializer][profiles.index <= factor].iloc[-1] for factor in (1, 2, math.inf)]
            first, twice, ever = (round(share * len(compared)) for share in shares)
            print(
                f"{initializer}: the cheapest on {first} of {len(compared)} workloads, "
                f"within twice the least cost on {twice}, reaches the target on {ever}"
            )


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
