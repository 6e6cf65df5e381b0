"""Who is better than whom, where that can be told: the one difference that the first screen names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from initbench.statistics.decisions import ALPHA
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import by_seed, compare_columns, compare_paired

if TYPE_CHECKING:
    from initbench.reporting.results import Results
    from initbench.statistics.ranks import RankComparison

CLAIMS = 2
"""A lead is named for one of two reasons, over workloads or on one of them; each has half of the 5 %."""


@dataclass(frozen=True)
class Lead:
    """A treatment that is better than another, told apart from it.

    Attributes:
        winner: label.
        loser: label.
        workload: label of the workload where it is; empty where it is over all workloads.
        difference: of the loser's outcome less the winner's, oriented, with the interval of the table that shows it; of
            their mean ranks where ranks say so.
        both_train: whether the loser is better than chance too; over all workloads that is not asked.
        is_of_ranks: whether the difference is of mean ranks.
    """

    winner: str
    loser: str
    workload: str
    difference: Estimate
    both_train: bool = True
    is_of_ranks: bool = False


def find_lead(results: Results, ranks: RankComparison, order: list[str]) -> Lead | None:
    """Return who leads: over the workloads, else by the largest difference that is told on one of them.

    Over workloads three treatments or more are compared by ranks, and two, of one metric, by their mean difference.

    Any pair on any workload might have been named, so a difference counts as told where its interval, simultaneous over
    all pairs of all workloads, is above 0; of several metrics the one that is clearest is named. The interval that is
    given is that of its workload, simultaneous over the pairs there.

    Args:
        results: of a report.
        ranks: of its treatments, as from `comparison.rank`.
        order: of the treatments, by which equal ones are told apart.
    """
    if (over := _over_workloads(results, ranks)) is not None:
        return over
    place = {name: number for number, name in enumerate(order)}
    groups = {str(workload): own for workload, own in results.judged.groupby("workload", sort=False) if len(own) > 1}
    pairs = {workload: len(own) * (len(own) - 1) // 2 for workload, own in groups.items()}
    found: list[tuple[bool, float, Lead]] = []
    for workload, own in groups.items():
        states = dict(zip(own["treatment"], own["state"], strict=True))
        ranked = dict(zip(own["treatment"], own["ranked"], strict=True))
        best = min(states, key=lambda name: (ranked[name], place[name]))
        if states[best] != "trained":
            continue
        wide = by_seed(results.trials_on[workload], states)
        for name in sorted(set(states) - {best}, key=place.__getitem__):
            strict = compare_columns(wide, name, best, CLAIMS * sum(pairs.values())).on(workload)
            if strict.has_interval and strict.low > 0:
                shown = compare_columns(wide, name, best, pairs[workload]).on(workload)
                lead = Lead(best, name, workload, shown, states[name] == "trained")
                size = shown.value if results.terms.metric is not None else shown.value / shown.half_width
                found.append((lead.both_train, size, lead))
    return max(found, key=lambda item: item[:2])[2] if found else None


def _over_workloads(results: Results, ranks: RankComparison) -> Lead | None:
    """Return who leads over the workloads on which all ran, at half of the 5 % (`CLAIMS`)."""
    names = [str(name) for name in ranks.mean_ranks.index]
    if ranks.pvalue < ALPHA / CLAIMS and len(ranks.behind):
        last = ranks.behind.to_dict("records")[-1]
        difference = Estimate(last["difference"], last["low"], last["high"], ranks.workloads)
        return Lead(names[0], str(last["second"]), "", difference, is_of_ranks=True)
    if len(names) == 2 and ranks.workloads > 1 and results.terms.metric is not None:
        one, other = names
        side = compare_paired(results.trials, one, other, CLAIMS).difference.side()
        if side:
            first, second = (one, other) if side < 0 else (other, one)
            return Lead(first, second, "", compare_paired(results.trials, second, first).difference)
    return None
