"""How does the outcome of each initializer change with depth?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from answering import answer, parser, trials_of
from initbench.reporting.comparison import workload_metrics
from initbench.reporting.statistics.cells import trial_outcomes

from initbench.errors import InitbenchError
from initbench.reporting.depth import without_depth
from initbench.reporting.statistics.intervals import mean_estimate

if TYPE_CHECKING:
    import pandas as pd

    from initbench.metric import Metric

DEPTH = "architecture.depth"


def main() -> None:
    """Print one line per architecture and initializer: at each depth the mean outcome with its interval."""
    arguments = parser(str(__doc__)).parse_args()
    found = trials_of(arguments.folder)
    trials, metrics = found.frame, workload_metrics(found.frame, found.metrics)
    if DEPTH not in trials or trials[DEPTH].nunique() < 2:
        raise InitbenchError(f"{arguments.folder}: its architectures do not differ in depth")
    outcomes = trial_outcomes(trials).dropna(subset=[DEPTH])
    outcomes = outcomes.assign(family=[without_depth(workload) for workload in outcomes["workload"]])
    print(f"Mean {found.terms.outcome} over seeds, with its 95 % interval in parentheses")
    for (family, treatment), own in outcomes.groupby(["family", "treatment"], sort=False):
        metric = metrics[str(own["workload"].iloc[0])]
        parts = [f"depth {depth:g}: {outcome_text(seeds, metric)}" for depth, seeds in own.groupby(DEPTH)]
        print(f"{family}, {treatment}: {'; '.join(parts)}")


def outcome_text(seeds: pd.DataFrame, metric: Metric) -> str:
    """Return the mean outcome of one cell's seeds with its interval, or how many of them diverged."""
    estimate = mean_estimate(seeds["outcome"].to_numpy()).in_direction(metric)
    if metric.unit == "%":
        estimate = estimate.clipped(0, 1)
    if math.isnan(estimate.value):
        return f"{(seeds['status'] == 'diverged').sum()} of {len(seeds)} diverged"
    if not estimate.has_interval:
        return f"{metric.text(estimate.value)} (n = {estimate.n} seeds)"
    ends = f"{metric.number(estimate.low)} to {metric.number(estimate.high)}"
    return f"{metric.text(estimate.value)} ({ends}, n = {estimate.n} seeds)"


if __name__ == "__main__":
    answer(main)
