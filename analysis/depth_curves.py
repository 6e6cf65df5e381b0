"""How does the test error of each initializer grow with depth?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from answering import answer, parser, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.depth import without_depth
from initbench.reporting.formatting import percent
from initbench.reporting.statistics.cells import trial_outcomes
from initbench.reporting.statistics.intervals import mean_estimate

if TYPE_CHECKING:
    import pandas as pd

DEPTH = "architecture.depth"


def main() -> None:
    """Print one line per architecture and initializer: at each depth the mean test error with its interval."""
    arguments = parser(str(__doc__)).parse_args()
    trials = trials_of(arguments.folder)
    if DEPTH not in trials or trials[DEPTH].nunique() < 2:
        raise InitbenchError(f"{arguments.folder}: its architectures do not differ in depth")
    outcomes = trial_outcomes(trials).dropna(subset=[DEPTH])
    outcomes = outcomes.assign(family=[without_depth(group) for group in outcomes["group"]])
    print("Mean test error over seeds, with its 95 % interval in parentheses")
    for (family, initializer), own in outcomes.groupby(["family", "initializer"], sort=False):
        parts = [f"depth {depth:g}: {error_text(seeds)}" for depth, seeds in own.groupby(DEPTH)]
        print(f"{family}, {initializer}: {'; '.join(parts)}")


def error_text(seeds: pd.DataFrame) -> str:
    """Return the mean test error of one cell's seeds with its interval, or how many of them diverged."""
    estimate = mean_estimate(seeds["outcome"].to_numpy()).clipped(0, 1)
    if math.isnan(estimate.value):
        return f"{(seeds['status'] == 'diverged').sum()} of {len(seeds)} diverged"
    if not estimate.has_interval:
        return f"{percent(estimate.value)} (n = {estimate.n} seeds)"
    return f"{percent(estimate.value)} ({100 * estimate.low:.2f} to {100 * estimate.high:.2f}, n = {estimate.n} seeds)"


if __name__ == "__main__":
    answer(main)
