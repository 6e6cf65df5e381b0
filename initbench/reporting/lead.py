"""The lead: the one difference that the first screen names, if any is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from initbench.reporting.results import CLAIMS, Results
from initbench.reporting.sentence import Sentence, bold_names, say
from initbench.reporting.sizes import difference_words, plain_words
from initbench.statistics.cells import all_train, complete, table
from initbench.statistics.decisions import ALPHA
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import compare_paired
from initbench.statistics.ranks import RankComparison
from initbench.statistics.verdicts import verdicts_of, workload_order


@dataclass(frozen=True)
class Lead:
    """A treatment that is better than another.

    Attributes:
        winner: label.
        loser: label.
        workload: label of the workload where it is better; empty if it is better over all workloads.
        difference: the loser's oriented outcome less the winner's, or the difference of their mean ranks, with the
            interval of the table that shows it.
        is_of_ranks: whether the difference is of mean ranks.
        tied: the labels of others that share the winner's mean rank.
    """

    winner: str
    loser: str
    workload: str
    difference: Estimate
    is_of_ranks: bool = False
    tied: tuple[str, ...] = ()


def find_lead(results: Results, ranks: RankComparison) -> Lead | None:
    """Return who leads over the workloads, else the clearest lead on one of them, or None.

    Over workloads three treatments or more are compared by ranks, two by their mean difference if they share a metric.
    On workloads the best is compared with others that train at all seeds, by `Results.suite_verdicts`. The largest
    difference is named, or if there are several metrics the one that is largest in units of its interval. The interval
    has the level of its step in Holm's procedure over the pairs of its workload, as in the section on that workload.

    Args:
        results: of a report.
        ranks: of its treatments, as from `comparison.rank`.
    """
    if (over := _over_workloads(results, ranks)) is not None:
        return over
    cells = results.cells[all_train(results.cells)]
    trains = set(zip(cells["workload"], cells["treatment"], strict=True))
    leads: list[tuple[float, Lead]] = []
    for workload, group in cells.groupby("workload", sort=False):
        verdicts = results.suite_verdicts[str(workload)]
        order = workload_order(group, verdicts)
        shown = {verdict.second: verdict for verdict in verdicts_of(order.best, results.verdicts[str(workload)])}
        for name, verdict in order.verdicts.items():
            if verdict.side < 0 and (workload, name) in trains:
                value, low, high, n = shown[name].difference
                difference = Estimate(0.0 - value, 0.0 - high, 0.0 - low, n)
                size = (
                    difference.value if results.terms.metric is not None else difference.value / difference.half_width
                )
                leads.append((size, Lead(order.best, name, str(workload), difference)))
    return max(leads, key=lambda item: item[0])[1] if leads else None


def _over_workloads(results: Results, ranks: RankComparison) -> Lead | None:
    """Return who leads over the workloads on which all ran, of those that train there, at a level of 5 % / `CLAIMS`."""
    names, cells = [str(name) for name in ranks.mean_ranks.index], results.cells
    is_ranked = cells["workload"].isin(complete(table(cells, "ranked")).table.index)
    fails = set(cells.loc[~all_train(cells) & is_ranked, "treatment"])
    behind = [row for row in ranks.behind.to_dict("records") if not {row["first"], row["second"]} & fails]
    if ranks.pvalue < ALPHA / CLAIMS and behind:
        last = behind[-1]
        difference = Estimate(last["difference"], last["low"], last["high"], ranks.workloads)
        first, *tied = ranks.leaders
        return Lead(first, str(last["second"]), "", difference, is_of_ranks=True, tied=tuple(tied))
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
        text = f"Over {over}, {{first}}, ahead of {{loser}} by {{size}}{{at}}."
    else:
        size = difference_words(lead.difference, results.metric_of[lead.workload or next(iter(results.metric_of))])
        text = f"Over {over}, {{winner!b}} beats {{loser}} by {{size}} on average{{at}}."
    sentence = say(
        "On {where!b}, {winner!b} beats {loser} by {size}{at}." if lead.workload else text,
        where=results.names.workload(lead.workload) if lead.workload else "",
        winner=results.names.treatment(lead.winner),
        first=first_rank([results.names.treatment(label) for label in (lead.winner, *lead.tied)]),
        loser=results.names.treatment(lead.loser),
        size=size,
        at=f", {results.tune.chosen()}" if results.tune is not None and results.tune.protocol else "",
    )
    return [sentence]


def first_rank(names: Sequence[str]) -> Sentence:
    """Return ``a ranks first``, or ``a and b share the first rank``."""
    return bold_names(names, 2) + say(" ranks first" if len(names) == 1 else " share the first rank")
