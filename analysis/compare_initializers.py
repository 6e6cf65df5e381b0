"""Which initializer has the better outcome, over all workloads of a suite?"""

from __future__ import annotations

from dataclasses import replace

from answering import Trials, answer, parser, trials_of
from initbench.reporting.answers.treatments import by_metric, left_out, rank
from initbench.reporting.statistics.comparison_verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)

from initbench.errors import InitbenchError
from initbench.reporting.frame import natural
from initbench.reporting.statistics.divergence import divergence_rate
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.statistics.variance import split_variance


def main() -> None:
    """Print the verdict on ranks, on every initializer against a reference, on divergence, and on the variance."""
    options = parser(str(__doc__))
    options.add_argument("--reference", help="compare all with this initializer; default: the one that ranks best")
    arguments = options.parse_args()
    trials = trials_of(arguments.folder)
    frame, terms = trials.frame, trials.terms
    compared, whole, ranks = rank(frame)
    names = sorted(set(compared["treatment"]), key=natural)
    if not names:
        raise InitbenchError(f"{arguments.folder}: no trial has a result")
    print(rank_verdict(ranks, terms))
    print(left_out(whole, terms) or f"Every {terms.treatment} ran on every workload.")
    if arguments.reference is None:
        # The best was picked by the errors that are compared: any of the pairs might have been looked at.
        shown = [str(name) for name in ranks.mean_ranks.index]
        among = frame[frame["workload"].isin(whole.table.index)]
        print_differences(replace(trials, frame=among), shown, len(shown) * (len(shown) - 1) // 2)
        # Of what is left out any pair of all might have been looked at, on the workloads that it has.
        print_differences(trials, [*shown[:1], *whole.treatments], len(names) * (len(names) - 1) // 2)
    elif arguments.reference in names:
        shown = sorted(names, key=lambda name: name != arguments.reference)
        print_differences(trials, shown, len(names) - 1)
    else:
        raise InitbenchError(f"no {terms.treatment} {arguments.reference} in this ledger; it has {', '.join(names)}")
    for name in names:
        rate = divergence_rate(compared, name, comparisons=len(names))
        if rate.diverged:
            print(divergence_rate_verdict(name, rate, terms))
    for metric, own in by_metric(frame, trials.metrics):
        print(variance_verdict(split_variance(own), replace(terms, metric=metric)))


def print_differences(trials: Trials, names: list[str], comparisons: int) -> None:
    """Print the verdict on every treatment against the first, for each metric by itself."""
    for metric, own in by_metric(trials.frame, trials.metrics):
        for name in names[1:]:
            print(difference_verdict(name, names[0], compare_paired(own, name, names[0], comparisons), metric))


if __name__ == "__main__":
    answer(main)
