"""What does initialization cost, and which initializer reaches a test error with the least compute in all?"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from answering import answer, parser, records_of, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.formatting import percent
from initbench.reporting.statistics.cost import cost_to_target, initialization_gradients


def main() -> None:
    """Print for each workload and initializer the gradients used before training and until a target is met."""
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
    for group, own in trials.groupby("group", sort=False):
        target = own["test_error"].median() if arguments.target is None else arguments.target
        if math.isnan(target):
            print(f"{group}: every trial diverged")
            continue
        print(f"{group}, until a test error of {percent(target)}, medians over seeds in gradients:")
        for initializer, seeds in own.groupby("initializer", sort=False):
            costs = [cost_to_target(records[i], target) for i in seeds["trial_id"]]
            begun = [initialization_gradients(records[i]) for i in seeds["trial_id"]]
            missed = int(np.isinf(costs).sum())
            total = float(np.median(costs))
            text = "not reached" if math.isinf(total) else f"{total:,.0f}"
            note = f", missed by {missed} of {len(costs)}" if missed else ""
            spent = float(pd.Series(begun).median())
            spent_text = "an unknown number" if math.isnan(spent) else f"{spent:,.0f}"
            print(f"  {initializer}: {text}, of them {spent_text} before training{note} (n = {len(costs)} seeds)")


if __name__ == "__main__":
    answer(main)
