"""Which initializer has the lower test error, over all workloads of a suite?"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from answering import answer, parser, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.frame import natural
from initbench.reporting.statistics.cells import cells, complete, table
from initbench.reporting.statistics.divergence import divergence_rate
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.statistics.ranks import compare_ranks
from initbench.reporting.statistics.variance import split_variance
from initbench.reporting.statistics.verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)

if TYPE_CHECKING:
    import pandas as pd


def main() -> None:
    """Print the verdict on ranks, on every initializer against a reference, on divergence, and on the variance."""
    options = parser(str(__doc__))
    options.add_argument("--reference", help="compare all with this initializer; default: the one that ranks best")
    arguments = options.parse_args()
    trials = trials_of(arguments.folder)
    compared = cells(trials)
    if compared.empty:
        raise InitbenchError(f"{arguments.folder}: no trial has a result")
    whole, workloads, initializers = complete(table(compared))
    ranks = compare_ranks(whole)
    print(rank_verdict(ranks))
    for kind, left_out in (("workloads", workloads), ("initializers", initializers)):
        if left_out:
            print(f"  {kind} not ranked, because of gaps: {', '.join(left_out)}")
    names = sorted(set(compared["initializer"]), key=natural)
    picked = str(ranks.mean_ranks.index[0]) if len(ranks.mean_ranks) else None
    reference = arguments.reference or picked or names[0]
    if reference not in names:
        raise InitbenchError(f"no initializer {reference} in this ledger; it has {', '.join(names)}")
    pairs = pairs_that_meet(compared)
    own = [pair for pair in pairs if reference in pair]
    # The best was picked by the errors that are compared: any of the pairs might have been looked at.
    comparisons = len(pairs if arguments.reference is None and picked is not None else own)
    for name in names:
        if name != reference:
            print(difference_verdict(name, reference, compare_paired(trials, name, reference, max(1, comparisons))))
    for name in names:
        rate = divergence_rate(compared, name)
        if rate.diverged:
            print(divergence_rate_verdict(name, rate))
    print(variance_verdict(split_variance(trials)))


def pairs_that_meet(compared: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of initializers that have a workload in common; only those can be compared."""
    on = {str(name): set(own["group"]) for name, own in compared.groupby("initializer")}
    return [(a, b) for a, b in itertools.combinations(on, 2) if on[a] & on[b]]


if __name__ == "__main__":
    answer(main)
