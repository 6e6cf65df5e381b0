"""What the statistics say of treatments, one sentence for each question.

A sentence has a number with its interval and n. It says "not enough evidence" where the interval holds the value of no
effect or the test does not reject, and then what would be enough. That is never evidence of no difference.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.formatting import counted, listed, percent
from initbench.reporting.statistics.intervals import MINIMUM_SEEDS, Estimate, values_deviation
from initbench.reporting.statistics.power import MAXIMUM_SEEDS, friedman_workloads, seeds_needed
from initbench.reporting.statistics.ranks import ALPHA
from initbench.reporting.statistics.wording import (
    NOT_ENOUGH,
    Terms,
    difference_words,
    interval_words,
    n_workloads,
    trials_words,
    workloads_words,
)

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.statistics.divergence import DivergenceRate
    from initbench.reporting.statistics.paired import PairedComparison
    from initbench.reporting.statistics.ranks import RankComparison
    from initbench.reporting.statistics.variance import VarianceSplit


def difference_verdict(treatment: str, reference: str, comparison: PairedComparison, metric: Metric) -> str:
    """Return whether a treatment has a better outcome than a reference over the workloads.

    What would be enough is the number of workloads that find a difference of the size seen with a chance of 80 %. With
    one workload alone it is the verdict over its seeds.

    Args:
        treatment: label of the one.
        reference: label of the other.
        comparison: of their oriented outcomes, as from `paired.compare_paired`.
        metric: of these outcomes.
    """
    found, m = comparison.difference, comparison.comparisons
    workloads, diverged = len(comparison.by_workload), int(comparison.by_workload["diverged"].sum())
    if workloads == 0:
        return (
            f"{NOT_ENOUGH} about {treatment} and {reference}: there is no workload and seed where both have a result."
        )
    if math.isnan(found.value):
        chance = comparison.probability_of_improvement
        lower = f"a run of {treatment} has the {metric.better} {metric.quantity} with probability {chance.value:.2f}"
        size = f"{interval_words(chance, '{:.2f}', comparisons=m)}, {n_workloads(workloads)}"
        pairs = int(comparison.by_workload["seeds"].sum())
        why = f"one or both diverged at {diverged} of {counted(pairs, 'seed')}, so that there is no mean difference"
        if chance.has_interval and not chance.low <= 0.5 <= chance.high:
            return f"Of {treatment} and {reference}, {lower} ({size}); {why}."
        return (
            f"{NOT_ENOUGH} that {treatment} and {reference} differ: {lower} ({size}), and {why}; "
            "more workloads would tell."
        )
    if workloads == 1:
        seeds = comparison.on(str(comparison.by_workload["workload"].iloc[0]))
        return _difference(treatment, reference, seeds, metric, m, "seed", " of one workload")
    return _difference(treatment, reference, found, metric, m, "workload")


def workload_verdict(first: str, second: str, estimate: Estimate, metric: Metric, comparisons: int = 1) -> str:
    """Return whether a treatment has a better outcome than another on one workload.

    What would be enough is the number of seeds that find a difference of the size seen with a chance of 80 %. The
    spread between seeds that this takes is recovered from the interval, which is a known multiple of it.

    Args:
        first: label of the one.
        second: label of the other.
        estimate: of the difference first - second of oriented outcomes, as from `paired.paired_estimate`.
        metric: of these outcomes.
        comparisons: with which that was made.
    """
    if estimate.n == 0:
        return f"{NOT_ENOUGH} about {first} and {second}: there is no seed where both have a result."
    if math.isnan(estimate.value):
        n = counted(estimate.n, "seed")
        return (
            f"{NOT_ENOUGH} that {first} and {second} differ: a trial of one of them diverged, so that there is no mean "
            f"difference (n = {n}); their medians are all there is to compare."
        )
    return _difference(first, second, estimate, metric, comparisons, "seed")


def rank_verdict(ranks: RankComparison, terms: Terms) -> str:
    """Return which treatment ranks best over the workloads, and which others are behind it by more than chance."""
    k = len(ranks.mean_ranks)
    if math.isnan(ranks.pvalue):
        return f"{NOT_ENOUGH} to rank the {terms.treatment}s over workloads: {terms.say(ranks.reason)}."
    best = str(ranks.mean_ranks.index[0])
    shared = [str(name) for name, mean in ranks.mean_ranks.items() if mean == ranks.mean_ranks.iloc[0]]
    leads = f"{best} is first" if len(shared) == 1 else f"{listed(shared)} share the first place"
    test = f"Friedman's χ² = {ranks.statistic:.1f} with {k - 1} degrees of freedom, p = {ranks.pvalue:.2g}"
    first = f"{leads} (mean rank {ranks.mean_ranks.iloc[0]:.2f} of {k}, {n_workloads(ranks.workloads)}; {test})"
    if ranks.pvalue >= ALPHA:
        needed = friedman_workloads(ranks.statistic, k, ranks.workloads, ranks.epsilon)
        enough = (
            f"differences of this size take about {needed} workloads"
            if needed
            else f"equal {terms.treatment}s would differ no less"
            if ranks.statistic <= k - 1
            else f"differences of this size take more than {MAXIMUM_SEEDS:,} workloads"
        )
        return f"{NOT_ENOUGH} that the {terms.treatment}s differ in rank: {first}; {enough}."
    # Both Holm's p-value and the interval are to say so before anything is claimed.
    apart = (ranks.pairs["pvalue"] < ALPHA) & (ranks.pairs["low"] > 0)
    behind = ranks.pairs[(ranks.pairs["first"] == best) & apart]
    if len(behind) == 0:
        return f"{first}; some {terms.treatment}s differ by more than chance, but not it from any other."
    names = ", ".join(
        f"{row['second']} (by {row['difference']:.2f}, {row['low']:.2f} to {row['high']:.2f}, p = {row['pvalue']:.2g})"
        for row in behind.to_dict("records")
    )
    return (
        f"{first}, ahead of {names} by more than chance (difference of mean ranks with its 95 % interval, simultaneous "
        f"over all {len(ranks.pairs)} pairs; p by Holm)."
    )


def divergence_rate_verdict(treatment: str, rate: DivergenceRate, terms: Terms) -> str:
    """Return on how many of its workloads a treatment diverges, and in how many trials."""
    on = rate.workloads
    if on.n == 0:
        return f"{NOT_ENOUGH} how often {treatment} diverges: no trial has a result."
    level = f", simultaneous over {counted(rate.comparisons, terms.treatment)}," if rate.comparisons > 1 else ""
    size = f"{percent(on.value)}, 95 % interval{level} over workloads {percent(on.low)} to {percent(on.high)}"
    return (
        f"{treatment} diverged on {round(on.value * on.n)} of {workloads_words(on.n)} at one seed or more ({size}), "
        f"in {rate.diverged} of {trials_words(rate.trials)}."
    )


def variance_verdict(split: VarianceSplit, terms: Terms) -> str:
    """Return what the outcome depends on most."""
    if split.reason:
        return f"{NOT_ENOUGH} to say what the outcome depends on: {terms.say(split.reason)}."
    shares = {
        f"between {terms.treatment}s": split.treatment,
        "between workloads": split.workload,
        f"in which {terms.treatment} meets which workload": split.interaction,
        "between seeds": split.seed,
    }
    parts = ", ".join(f"{100 * share:.0f} % is {name}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
    a, i, s = split.shape
    size = f"n = {a} workloads, {i} {terms.treatment}s, {s} seeds; estimated by moments, without interval"
    of = "rank" if split.of_ranks else terms.outcome
    return f"Of the variance of the {of}, {parts} ({size})."


def _difference(
    first: str, second: str, found: Estimate, metric: Metric, comparisons: int, unit: str, where: str = ""
) -> str:
    """Return the sentence on a mean difference first - second, in the metric's own direction.

    Args:
        first: label of the one.
        second: label of the other.
        found: of oriented outcomes over the units, as from `intervals.mean_estimate`.
        metric: of the outcomes.
        comparisons: with which it was made.
        unit: what n counts: ``seed`` or ``workload``.
        where: added to n.
    """
    n = f"n = {counted(found.n, unit)}{where}"
    found, most = found.in_direction(metric), metric.largest_difference
    if not found.has_interval:
        lacking = (
            "an interval takes 3" if found.n < MINIMUM_SEEDS else "it is the same each time, which gives no interval"
        )
        mean = f"{metric.amount(found.value)} of {metric.title}, " if found.n >= MINIMUM_SEEDS else ""
        return f"{NOT_ENOUGH} that {first} and {second} differ: {mean}{n}; {lacking}."
    if found.low > 0 or found.high < 0:
        size = found if found.low > 0 else Estimate(-found.value, -found.high, -found.low, found.n)
        ends = difference_words(size.clipped(-most, most), metric, comparisons)
        than = "more" if found.low > 0 else "less"
        return f"{first} has {metric.amount(size.value)} {than} {metric.title} than {second} ({ends}, {n})."
    needed = seeds_needed(found.value, values_deviation(found, comparisons), comparisons)
    enough = (
        f"a difference of this size takes about {needed} {unit}s"
        if needed
        else f"a difference of this size takes more than {MAXIMUM_SEEDS:,} {unit}s"
    )
    ends = difference_words(found.clipped(-most, most), metric, comparisons)
    return (
        f"{NOT_ENOUGH} that {first} and {second} differ: {metric.amount(found.value)} of {metric.title} "
        f"({ends}, {n}); {enough}."
    )
