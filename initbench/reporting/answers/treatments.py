"""Which treatment is better?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from initbench.reporting.answers.comparison_parts import (
    comparison_figures,
    differences_table,
    paired_table,
    pairs_table,
)
from initbench.reporting.frame import natural
from initbench.reporting.metrics import UNKNOWN
from initbench.reporting.parts import Answer, Figure, Remark, Section, Table
from initbench.reporting.statistics.cells import Complete, cells, complete, table, trial_outcomes
from initbench.reporting.statistics.comparison_verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)
from initbench.reporting.statistics.divergence import divergence_rate
from initbench.reporting.statistics.paired import compare_paired
from initbench.reporting.statistics.ranks import RankComparison, compare_ranks
from initbench.reporting.statistics.variance import split_variance
from initbench.reporting.statistics.wording import workloads_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.answers.comparison_parts import Against
    from initbench.reporting.statistics.divergence import DivergenceRate
    from initbench.reporting.statistics.wording import Terms

_EVERYWHERE = "over all workloads"
_SMALLEST = 2  # workloads, below which there is nothing to compare over


class Ranking(NamedTuple):
    """Treatments ranked over the workloads on which all of them ran.

    Attributes:
        cells: of all workloads, as from `statistics.cells.cells`.
        whole: their outcomes without gaps.
        ranks: of these.
    """

    cells: pd.DataFrame
    whole: Complete
    ranks: RankComparison


def rank(trials: pd.DataFrame) -> Ranking:
    """Return the treatments ranked over workloads.

    Args:
        trials: as from `comparison.comparable_trials`.
    """
    compared = cells(trials)
    whole = complete(table(compared))
    return Ranking(compared, whole, compare_ranks(whole.table))


def treatment_answers(
    trials: pd.DataFrame,
    ranking: Ranking,
    colours: Mapping[str, str],
    by_workload: Sequence[Answer],
    metrics: Mapping[str, Metric],
    terms: Terms,
) -> Section:
    """Return what the trials say of the treatments over all workloads together.

    The differences are of every treatment against the one with the least mean rank. That one was chosen from the same
    trials, so that the intervals are simultaneous over all pairs. Those of the rates of divergence are simultaneous
    over the treatments. Workloads on which not every treatment ran are left out of all but these rates. A treatment
    that is left out is compared with the best on the workloads that both have; these intervals are simultaneous over
    all pairs of all treatments. Where workloads have several metrics their differences are put together by metric.

    Args:
        trials: as from `comparison.comparable_trials`.
        ranking: of them, as from `rank`.
        colours: as from `charts.colours`.
        by_workload: the verdict of each workload that compares something.
        metrics: by name, as from `metrics.outcome_metrics`.
        terms: of the comparison.
    """
    compared, whole, ranks = ranking
    names = [str(name) for name in ranks.mean_ranks.index]
    everywhere = trials[trials["workload"].isin(whole.table.index)]
    against = _against(everywhere, names, metrics, len(names))
    further = _against(trials, [*names[:1], *whole.treatments], metrics, compared["treatment"].nunique())
    outcomes, every = trial_outcomes(trials), [str(name) for name in dict.fromkeys(compared["treatment"])]
    rates = {name: divergence_rate(compared, name, comparisons=len(every), trials=outcomes) for name in every}
    over: list[Answer] = []
    parts: list[Figure | Table | Remark] = []
    if len(names) > 1 and len(whole.table) >= _SMALLEST:
        over = [Answer(_EVERYWHERE, rank_verdict(ranks, terms))]
        over += [
            Answer(_over(metric, terms), difference_verdict(names[1], names[0], found[names[1]], metric))
            for metric, found in against
        ]
        parts = comparison_figures(against, whole.table, ranks, colours, terms)
        parts.append(differences_table(names[0], against, further, ranks, rates, terms))
        if len(ranks.pairs):
            parts.append(pairs_table(ranks, terms))
    pairs = [(metric, name, comparison) for metric, found in [*against, *further] for name, comparison in found.items()]
    if pairs:
        parts.append(paired_table(names[0], pairs, terms))
    if left := left_out(whole, terms):
        parts.append(Remark(left))
    if without := sorted(set(trials["treatment"]) - set(compared["treatment"]), key=natural) if len(compared) else []:
        parts.append(
            Remark(f"In no statistic, because no trial has an outcome: {terms.treatment}s {', '.join(without)}.")
        )
    details = [answer._replace(is_detail=bool(over) or i > 0) for i, answer in enumerate(by_workload)]
    details += [
        Answer(
            f"{name}, on {workloads_words(len(comparison.by_workload))}",
            difference_verdict(name, names[0], comparison, metric),
            is_detail=True,
        )
        for metric, found in further
        for name, comparison in found.items()
        if len(comparison.by_workload)
    ]
    variances = [
        Answer(_over(metric, terms), variance_verdict(split_variance(own), replace(terms, metric=metric)))
        for metric, own in by_metric(trials, metrics)
    ]
    questions = {
        f"Which {terms.treatment} is better?": [*over, *details],
        f"Which {terms.treatment}s diverge?": _divergence(rates, outcomes["trial_id"].nunique(), terms),
        f"What does the {terms.outcome} depend on?": variances,
    }
    return Section({question: answers for question, answers in questions.items() if answers}, parts)


def by_metric(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> list[tuple[Metric, pd.DataFrame]]:
    """Return the trials of each metric, all of them where there is one."""
    if len(metrics) <= 1:
        return [(next(iter(metrics.values()), UNKNOWN), trials)]
    return [(metric, trials[trials["metric"] == name]) for name, metric in metrics.items()]


def _over(metric: Metric, terms: Terms) -> str:
    return _EVERYWHERE if terms.metric is not None else f"{_EVERYWHERE}, {metric.title}"


def _against(trials: pd.DataFrame, names: Sequence[str], metrics: Mapping[str, Metric], among: int) -> Against:
    """Return for each metric the comparisons of every treatment with the first of the names.

    Args:
        trials: as from `comparison.comparable_trials`.
        names: the treatments.
        metrics: by name.
        among: of how many treatments any pair might have been looked at.
    """
    pairs = among * (among - 1) // 2
    return [
        (metric, {name: compare_paired(own, name, names[0], comparisons=pairs) for name in names[1:]})
        for metric, own in by_metric(trials, metrics)
    ]


def _divergence(rates: Mapping[str, DivergenceRate], trials: int, terms: Terms) -> list[Answer]:
    some = {name: rate for name, rate in rates.items() if rate.diverged}
    if rates and not some:
        return [Answer(_EVERYWHERE, f"No trial diverged, of {trials}.")]
    most = sorted(some, key=lambda name: (-some[name].workloads.value, -some[name].diverged))
    return [Answer(name, divergence_rate_verdict(name, some[name], terms), i > 0) for i, name in enumerate(most)]


def left_out(whole: Complete, terms: Terms, reason: str = "ran everywhere") -> str:
    """Return what a comparison over workloads lacks, as a sentence, empty where nothing was left out.

    Args:
        whole: what is left of a table without gaps.
        terms: of the comparison.
        reason: what not every treatment did, so that there are gaps.
    """
    left = [f"workloads {', '.join(whole.workloads)}"] if whole.workloads else []
    left += [f"{terms.treatment}s {', '.join(whole.treatments)}"] if whole.treatments else []
    if not left:
        return ""
    return (
        f"Left out where workloads are put together, because not every {terms.treatment} {reason}: {'; '.join(left)}."
    )
