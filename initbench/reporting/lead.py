"""The lead: the one difference that the first screen names, if any can be told."""

from __future__ import annotations

from dataclasses import dataclass

from initbench.reporting.results import Results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sizes import difference_words, plain_words
from initbench.statistics.decisions import ALPHA
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import by_seed, compare_columns, compare_paired
from initbench.statistics.ranks import RankComparison

CLAIMS = 2
"""A lead is named for one of two reasons, over workloads or on one of them; each has half of the 5 %."""


@dataclass(frozen=True)
class Lead:
    """A treatment that is better than another.

    Attributes:
        winner: label.
        loser: label.
        workload: label of the workload where it is better; empty if it is better over all workloads.
        difference: the loser's oriented outcome less the winner's, or the difference of their mean ranks, with the
            interval of the table that shows it.
        both_train: whether the loser is better than chance too; always true over all workloads.
        is_of_ranks: whether the difference is of mean ranks.
    """

    winner: str
    loser: str
    workload: str
    difference: Estimate
    both_train: bool = True
    is_of_ranks: bool = False


def find_lead(results: Results, ranks: RankComparison, order: list[str]) -> Lead | None:
    """Return who leads over the workloads, else the clearest lead on one of them, or None.

    Over workloads three treatments or more are compared by ranks, two by their mean difference if they share a metric.
    On workloads a difference counts if its interval, simultaneous over all pairs of all workloads (any of them might
    have been named), is above 0. The largest is named, or if there are several metrics the one that is largest in units
    of its interval. The interval given is simultaneous over the pairs of that workload.

    Args:
        results: of a report.
        ranks: of its treatments, as from `comparison.rank`.
        order: of the treatments, which decides between equal ones.
    """
    if (over := _over_workloads(results, ranks)) is not None:
        return over
    position = {name: number for number, name in enumerate(order)}
    groups = {str(workload): own for workload, own in results.judged.groupby("workload", sort=False) if len(own) > 1}
    pairs = {workload: len(own) * (len(own) - 1) // 2 for workload, own in groups.items()}
    leads: list[tuple[bool, float, Lead]] = []
    for workload, cells in groups.items():
        states = dict(zip(cells["treatment"], cells["state"], strict=True))
        ranked = dict(zip(cells["treatment"], cells["ranked"], strict=True))
        best = min(states, key=lambda name: (ranked[name], position[name]))
        if states[best] != "trained":
            continue
        wide = by_seed(results.trials_on[workload], states)
        for name in sorted(set(states) - {best}, key=position.__getitem__):
            strict = compare_columns(wide, name, best, CLAIMS * sum(pairs.values())).on(workload)
            if strict.has_interval and strict.low > 0:
                shown = compare_columns(wide, name, best, pairs[workload]).on(workload)
                lead = Lead(best, name, workload, shown, states[name] == "trained")
                size = shown.value if results.terms.metric is not None else shown.value / shown.half_width
                leads.append((lead.both_train, size, lead))
    return max(leads, key=lambda item: item[:2])[2] if leads else None


def _over_workloads(results: Results, ranks: RankComparison) -> Lead | None:
    """Return who leads over the workloads on which all ran, at a level of 5 % / `CLAIMS`."""
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


def lead_sentences(lead: Lead | None, results: Results) -> list[Sentence]:
    """Return a sentence on who is better than whom and by how much, if there is a lead."""
    if lead is None:
        return []
    over = results.names.workloads_of(lead.difference.n)
    if lead.is_of_ranks:
        size = plain_words(lead.difference, "{:.1f}", "ranks")
        text = f"Over {over}, {{winner!b}} ranks first, ahead of {{loser}} by {{size}}{{at}}."
    else:
        size = difference_words(lead.difference, results.metric_of[lead.workload or next(iter(results.metric_of))])
        text = f"Over {over}, {{winner!b}} beats {{loser}} by {{size}} on average{{at}}."
    sentence = say(
        "On {where!b}, {winner!b} beats {loser} by {size}{at}." if lead.workload else text,
        where=results.names.workload(lead.workload) if lead.workload else "",
        winner=results.names.treatment(lead.winner),
        loser=results.names.treatment(lead.loser),
        size=size,
        at=f", {results.tune.chosen()}" if results.tune is not None and results.tune.protocol else "",
    )
    return [sentence]
