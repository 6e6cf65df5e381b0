"""Which initializer has the lower test error, over all workloads of a suite?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from answering import answer, parser, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.answers.initializers import left_out, rank
from initbench.reporting.frame import natural
from initbench.reporting.statistics.comparison_verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)
from initbench.reporting.statistics.divergence import divergence_rate
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.statistics.variance import split_variance

if TYPE_CHECKING:
    import pandas as pd


def main() -> None:
    """Print the verdict on ranks, on every initializer against a reference, on divergence, and on the variance."""
    options = parser(str(__doc__))
    options.add_argument("--reference", help="compare all with this initializer; default: the one that ranks best")
    arguments = options.parse_args()
    trials = trials_of(arguments.folder)
    compared, whole, ranks = rank(trials)
    names = sorted(set(compared["initializer"]), key=natural)
    if not names:
        raise InitbenchError(f"{arguments.folder}: no trial has a result")
    print(rank_verdict(ranks))
    print(left_out(whole) or "Every initializer ran on every workload.")
    if arguments.reference is None:
        # The best was picked by the errors that are compared: any of the pairs might have been looked at.
        shown = [str(name) for name in ranks.mean_ranks.index]
        among = trials[trials["group"].isin(whole.table.index)]
        print_differences(among, shown, len(shown) * (len(shown) - 1) // 2)
    elif arguments.reference in names:
        shown = sorted(names, key=lambda name: name != arguments.reference)
        print_differences(trials, shown, len(names) - 1)
    else:
        raise InitbenchError(f"no initializer {arguments.reference} in this ledger; it has {', '.join(names)}")
    for name in names:
        rate = divergence_rate(compared, name, comparisons=len(names))
        if rate.diverged:
            print(divergence_rate_verdict(name, rate))
    print(variance_verdict(split_variance(trials)))


def print_differences(trials: pd.DataFrame, names: list[str], comparisons: int) -> None:
    """Print the verdict on every initializer against the first."""
    for name in names[1:]:
        print(difference_verdict(name, names[0], compare_paired(trials, name, names[0], comparisons)))


if __name__ == "__main__":
    answer(main)
