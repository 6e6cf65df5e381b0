"""What the statistics say of treatments, one sentence for each question.

A sentence has one number and its interval. Where nothing can be told it says so, and what would tell; that is never
evidence of no difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.comparing.formatting import count, counted
from initbench.reporting.sentence import Sentence
from initbench.reporting.sizes import difference_words, needed_words, over_words, plain_words
from initbench.reporting.words.fitting import said
from initbench.reporting.words.sentence import bolded, first_fitting
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate
from initbench.statistics.power import number_needed

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.metric import Metric
    from initbench.reporting.terms import Terms
    from initbench.statistics.cells import Complete
    from initbench.statistics.paired import PairedComparison
    from initbench.statistics.ranks import RankComparison
    from initbench.statistics.variance import VarianceSplit


def pair_words(
    first: str, second: str, difference: Estimate, metric: Metric, *, on: str = "", comparisons: int = 1
) -> Sentence:
    """Return which of two treatments is better on one workload, or how many seeds would tell.

    Args:
        first: the one, as a display text.
        second: the other.
        difference: first - second of oriented outcomes over seeds, as from `paired.paired_estimate`.
        metric: of these outcomes.
        on: the workload, as a display text; nothing is said of it where empty.
        comparisons: with which the difference was made.
    """
    where = " on {workload}" if on else ""
    names = {"first": first, "second": second, "workload": on}
    if difference.n == 0:
        text = f"{{first}} and {{second}} cannot be compared{where}: no seed has a result of both."
        return said(text, names=names, is_open=True, subject=on)
    if math.isnan(difference.value):
        text = f"{{first}} and {{second}} have no mean difference{where}, for a trial diverged; compare their medians."
        return said(text, names=names, is_open=True, subject=on)
    return _pair(first, second, difference, metric, comparisons, "seed", where, on)


def pair_over_workloads_words(
    treatment: str,
    reference: str,
    comparison: PairedComparison,
    metric: Metric,
    *,
    place: str = "workload",
    several: bool = False,
) -> Sentence:
    """Return which of two treatments is better over workloads, or how many of these would tell.

    Where a trial diverged there is no mean difference, and the probability of improvement is said. With one workload
    it is the sentence on its seeds.

    Args:
        treatment: the one, as a display text.
        reference: the other.
        comparison: of their oriented outcomes, as from `paired.compare_paired`.
        metric: of these outcomes.
        place: a workload in one word.
        several: whether other workloads have other metrics, so that the metric must be said; a size has its unit.
    """
    names = {"first": treatment, "second": reference}
    of = f" of {metric.title}" if several else ""
    if comparison.workloads == 0:
        text = f"{{first}} and {{second}} cannot be compared: no {place}{of} and seed has a result of both."
        return said(text, names=names, is_open=True)
    number = comparison.workloads
    over = f"{number} {place}s" if several and number > 1 else over_words(number, place)
    where = f" {'on' if number == 1 else 'over'} {over}"
    if comparison.has_mean:
        unit = "seed" if comparison.is_over_seeds else place
        return _pair(treatment, reference, comparison.judged, metric, comparison.comparisons, unit, where, of=of)
    if not comparison.is_told:
        return said(
            f"{{first}} and {{second}} cannot be told apart{where}{of}, for trials diverged; more {place}s would tell.",
            names=names,
            is_open=True,
        )
    chance = comparison.probability_of_improvement
    if comparison.side > 0:
        names = {"first": reference, "second": treatment}
        chance = Estimate(1 - chance.value, 1 - chance.high, 1 - chance.low, chance.n)
    return said(
        f"A run of {{first}} beats one of {{second}}{where}{of} with probability {{size}}.",
        "A run of {first} beats one of {second} with probability {size}.",
        names=names,
        bold=["first"],
        size=plain_words(chance),
    )


def ranks_words(
    ranks: RankComparison, terms: Terms, display: Callable[[str], str] = str, *, place: str = "workload"
) -> Sentence:
    """Return which treatment ranks best over workloads and is told to be ahead, or how many workloads would tell.

    Args:
        ranks: as from `ranks.compare_ranks`.
        terms: of the comparison.
        display: a treatment's label → its display text.
        place: a workload in one word.
    """
    n, k = ranks.workloads, len(ranks.mean_ranks)
    over = over_words(n, place)
    if math.isnan(ranks.pvalue):
        return _no_ranks(ranks, terms, place)
    if not ranks.is_told:
        needed = ranks.needed_for_one_rank
        if needed is not None and needed > n:
            text = f"No order over {over}: {n} are too few; about {count(needed)} would tell a difference of one rank."
            return bolded(text, (), True)
        text = f"No order over {over} can be told; for differences of this size {needed_words(ranks.needed)}."
        return bolded(text, (), True)
    leaders, behind = [display(name) for name in ranks.leaders], ranks.behind
    if len(behind) == 0:
        return bolded(f"{k} {terms.treatment}s differ in rank over {over}, but no two of them can be told apart.")
    nearest = behind.iloc[0]
    others = f" and {len(leaders) - 1} others" if len(leaders) > 2 else " and {tied}" if len(leaders) > 1 else ""
    who = "{first}" + others + (" share the first rank" if others else " ranks first")
    more = f" and of {counted(len(behind) - 1, 'other')} by more" if len(behind) > 1 else ""
    return said(
        f"{who} over {over}, ahead of {{second}} by {{size}}{more}.",
        f"{who}, ahead of {{second}} by {{size}}{more}.",
        f"{who}, ahead of {{second}} by {{size}}.",
        names={
            "first": leaders[0],
            "tied": leaders[1] if len(leaders) > 1 else "",
            "second": display(str(nearest["second"])),
        },
        bold=["first", "tied"],
        size=plain_words(Estimate(nearest["difference"], nearest["low"], nearest["high"], n), unit="ranks"),
    )


def variance_words(split: VarianceSplit, terms: Terms, *, place: str = "workload") -> Sentence:
    """Return what the outcome depends on most.

    Args:
        split: as from `variance.split_variance`.
        terms: of the comparison; its metric is that of the outcomes that were split.
        place: a workload in one word.
    """
    if split.is_too_small:
        a, i, s = split.shape
        have = f"{counted(a, place)}, {counted(i, terms.treatment)} and {counted(s, 'seed')}"
        return bolded(f"Cannot be told from {have}, all of them complete; it takes 2 of each.", (), True)
    if not split.is_known:
        return bolded("Cannot be told: all outcomes are equal, so there is no variance to split.", (), True)
    name, share = split.largest
    where = {
        "treatment": f"between {terms.treatment}s",
        "workload": f"between {place}s",
        "interaction": f"in which {terms.treatment} meets which {place}",
        "seed": "between seeds",
    }[name]
    what = "ranks" if split.of_ranks else terms.outcome
    much = "Most of the variance" if share > 0.5 else "The largest part of the variance"
    percent = f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
    return bolded(first_fitting(f"{much} of {what}, {percent}, is {where}.", f"{much}, {percent}, is {where}."))


def left_out_words(
    whole: Complete,
    terms: Terms,
    display: Callable[[str], str] = str,
    display_workload: Callable[[str], str] = str,
    *,
    place: str = "workload",
    reason: str = "ran everywhere",
) -> str:
    """Return what a comparison over workloads leaves out, as a remark that names all; empty where that is nothing.

    Args:
        whole: what is left of a table without gaps.
        terms: of the comparison.
        display: a treatment's label → its display text.
        display_workload: a workload's, likewise.
        place: a workload in one word.
        reason: what not every treatment did, so that there are gaps.
    """
    left = [", ".join(display_workload(name) for name in whole.workloads)] if whole.workloads else []
    left += [", ".join(display(name) for name in whole.treatments)] if whole.treatments else []
    if not left:
        return ""
    return f"Left out over {place}s, because not every {terms.treatment} {reason} there: {'; '.join(left)}."


def _no_ranks(ranks: RankComparison, terms: Terms, place: str) -> Sentence:
    k = len(ranks.mean_ranks)
    if ranks.workloads == 0 or k == 0:
        return bolded(f"No order over {place}s: on none of them has every {terms.treatment} a result.", (), True)
    if k < 3:
        text = "Ranks take 3 {0}s; 2 are compared by their difference." if k == 2 else "There is one {0} alone."
        return bolded(text.format(terms.treatment), (), True)
    return bolded(f"No order over {place}s from one alone; at least {ranks.needed_for_one_rank} would tell.", (), True)


def _pair(
    first: str,
    second: str,
    difference: Estimate,
    metric: Metric,
    comparisons: int,
    unit: str,
    where: str,
    workload: str = "",
    of: str = "",
) -> Sentence:
    """Return the sentence on a mean difference first - second of oriented outcomes.

    Args:
        first: a display text.
        second: another.
        difference: over the units, as from `intervals.mean_estimate`.
        metric: of the outcomes.
        comparisons: with which it was made.
        unit: what its n counts, in the singular.
        where: behind the verb, with the field ``workload`` or none.
        workload: what stands in this field.
        of: behind `where`, where no size tells the metric.
    """
    names = {"first": first, "second": second, "workload": workload}
    side = difference.side()
    if side:
        if side > 0:
            names |= {"first": second, "second": first}
        else:
            difference = Estimate(-difference.value, -difference.high, -difference.low, difference.n)
        return said(
            f"{{first}} beats {{second}}{where} by {{size}}.",
            "{first} beats {second} by {size}.",
            names=names,
            bold=["first"],
            subject=workload,
            size=difference_words(difference, metric),
        )
    if difference.n < MINIMUM_SEEDS:
        enough = f"that takes {MINIMUM_SEEDS}" + ("" if unit in where else f" {unit}s")
    elif not difference.has_interval:
        enough = f"their difference is the same at each {unit}"
    else:
        enough = needed_words(number_needed(difference, comparisons), "" if unit in where else unit)
    return said(
        f"{{first}} and {{second}} cannot be told apart{where}{of}; {enough}.",
        f"{{first}} and {{second}} cannot be told apart; {enough}.",
        names=names,
        is_open=True,
        subject=workload,
    )
