"""Which initializer has the lower test error, over all workloads of a suite?"""

from __future__ import annotations

from answering import answer, parser, trials_of

from initbench.errors import InitbenchError
from initbench.reporting.statistics.cells import cells, complete, table
from initbench.reporting.statistics.intervals import wilson_estimate
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.statistics.ranks import compare_ranks
from initbench.reporting.statistics.variance import split_variance
from initbench.reporting.statistics.verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)


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
    for left_out in (workloads, initializers):
        if left_out:
            print(f"  not ranked, because of gaps: {', '.join(left_out)}")
    names = sorted(set(compared["initializer"]))
    reference = arguments.reference or (str(ranks.mean_ranks.index[0]) if len(ranks.mean_ranks) else names[0])
    if reference not in names:
        raise InitbenchError(f"no initializer {reference} in this ledger; it has {', '.join(names)}")
    for name in names:
        if name != reference:
            print(difference_verdict(name, reference, compare_paired(trials, name, reference)))
    for name, own in compared.groupby("initializer"):
        if own["diverged"].any():
            print(
                divergence_rate_verdict(str(name), wilson_estimate(int(own["diverged"].sum()), int(own["seeds"].sum())))
            )
    print(variance_verdict(split_variance(trials)))


if __name__ == "__main__":
    answer(main)
