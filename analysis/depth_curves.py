"""How does the test error of each initializer grow with depth?"""

from __future__ import annotations

import math

from answering import answer, parser, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.formatting import percent
from initbench.reporting.statistics.cells import trial_outcomes
from initbench.reporting.statistics.intervals import mean_estimate

DEPTH = "architecture.depth"


def main() -> None:
    """Print one line per architecture and initializer: at each depth the mean test error with its interval."""
    arguments = parser(str(__doc__)).parse_args()
    trials = trials_of(arguments.folder)
    if DEPTH not in trials or trials[DEPTH].nunique() < 2:
        raise InitbenchError(f"{arguments.folder}: its architectures do not differ in depth")
    outcomes = trial_outcomes(trials).dropna(subset=[DEPTH])
    # The workload without its depth: the other arguments of the architecture, and the scheme.
    others = [c for c in trials.columns if c.startswith("architecture.") and c != DEPTH and trials[c].nunique() > 1]
    for keys, own in outcomes.groupby(["architecture", "scheme", *others, "dataset", "initializer"], dropna=False):
        parts = []
        for depth, seeds in own.groupby(DEPTH):
            estimate = mean_estimate(seeds["outcome"].to_numpy())
            diverged = int((seeds["status"] == "diverged").sum())
            half = (estimate.high - estimate.low) / 2
            mean = (
                f"{diverged} of {len(seeds)} diverged" if math.isnan(estimate.value) else percent(estimate.value, half)
            )
            parts.append(f"depth {depth:g}: {mean}")
        first = own.iloc[0]
        names = [first["architecture"], *[f"{c.partition('.')[2]}={first[c]}" for c in others], str(keys[-1])]
        print(f"{', '.join(names)} (n = {own['seed'].nunique()} seeds): {'; '.join(parts)}")


if __name__ == "__main__":
    answer(main)
