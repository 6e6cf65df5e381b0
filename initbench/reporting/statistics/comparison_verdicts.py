"""What the statistics say of initializers, one sentence for each question.

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
    interval_words,
    n_workloads,
    points,
    trials_words,
    workloads_words,
)

if TYPE_CHECKING:
    from initbench.reporting.statistics.divergence import DivergenceRate
    from initbench.reporting.statistics.paired import PairedComparison
    from initbench.reporting.statistics.ranks import RankComparison
    from initbench.reporting.statistics.variance import VarianceSplit


def difference_verdict(initializer: str, reference: str, comparison: PairedComparison) -> str:
    """Return whether an initializer has a lower test error than a reference over the workloads.

    What would be enough is the number of workloads that find a difference of the size seen with a chance of 80 %. With
    one workload alone it is the verdict over its seeds.
    """
    found, m = comparison.difference, comparison.comparisons
    workloads, diverged = len(comparison.by_workload), int(comparison.by_workload["diverged"].sum())
    if workloads == 0:
        return (
            f"{NOT_ENOUGH} about {initializer} and {reference}: there is no workload and seed where both have a result."
        )
    if math.isnan(found.value):
        chance = comparison.probability_of_improvement
        lower = f"a run of {initializer} has the lower error with probability {chance.value:.2f}"
        size = f"{interval_words(chance, '{:.2f}', comparisons=m)}, {n_workloads(workloads)}"
        pairs = int(comparison.by_workload["seeds"].sum())
        why = f"one or both diverged at {diverged} of {counted(pairs, 'seed')}, so that there is no mean difference"
        if chance.has_interval and not chance.low <= 0.5 <= chance.high:
            return f"Of {initializer} and {reference}, {lower} ({size}); {why}."
        return (
            f"{NOT_ENOUGH} that {initializer} and {reference} differ: {lower} ({size}), and {why}; "
            "more workloads would tell."
        )
    if workloads == 1:
        seeds = comparison.on(str(comparison.by_workload["group"].iloc[0]))
        return _difference(initializer, reference, seeds, m, "seed", " of one workload")
    return _difference(initializer, reference, found, m, "workload")


def workload_verdict(first: str, second: str, estimate: Estimate, comparisons: int = 1) -> str:
    """Return whether an initializer has a lower test error than another on one workload.

    What would be enough is the number of seeds that find a difference of the size seen with a chance of 80 %. The
    spread between seeds that this takes is recovered from the interval, which is a known multiple of it.

    Args:
        first: label of the one.
        second: label of the other.
        estimate: of the difference first - second, as from `paired.paired_estimate`.
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
    return _difference(first, second, estimate, comparisons, "seed")


def rank_verdict(ranks: RankComparison) -> str:
    """Return which initializer ranks best over the workloads, and which others are behind it by more than chance."""
    k = len(ranks.mean_ranks)
    if math.isnan(ranks.pvalue):
        return f"{NOT_ENOUGH} to rank the initializers over workloads: {ranks.reason}."
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
            else "equal initializers would differ no less"
            if ranks.statistic <= k - 1
            else f"differences of this size take more than {MAXIMUM_SEEDS:,} workloads"
        )
        return f"{NOT_ENOUGH} that the initializers differ in rank: {first}; {enough}."
    # Both Holm's p-value and the interval are to say so before anything is claimed.
    apart = (ranks.pairs["pvalue"] < ALPHA) & (ranks.pairs["low"] > 0)
    behind = ranks.pairs[(ranks.pairs["first"] == best) & apart]
    if len(behind) == 0:
        return f"{first}; some initializers differ by more than chance, but not it from any other."
    names = ", ".join(
        f"{row['second']} (by {row['difference']:.2f}, {row['low']:.2f} to {row['high']:.2f}, p = {row['pvalue']:.2g})"
        for row in behind.to_dict("records")
    )
    return (
        f"{first}, ahead of {names} by more than chance (difference of mean ranks with its 95 % interval, simultaneous "
        f"over all {len(ranks.pairs)} pairs; p by Holm)."
    )


def divergence_rate_verdict(initializer: str, rate: DivergenceRate) -> str:
    """Return on how many of its workloads an initializer diverges, and in how many trials."""
    on = rate.workloads
    if on.n == 0:
        return f"{NOT_ENOUGH} how often {initializer} diverges: no trial has a result."
    level = f", simultaneous over {counted(rate.comparisons, 'initializer')}," if rate.comparisons > 1 else ""
    size = f"{percent(on.value)}, 95 % interval{level} over workloads {percent(on.low)} to {percent(on.high)}"
    return (
        f"{initializer} diverged on {round(on.value * on.n)} of {workloads_words(on.n)} at one seed or more ({size}), "
        f"in {rate.diverged} of {trials_words(rate.trials)}."
    )


def variance_verdict(split: VarianceSplit) -> str:
    """Return what the outcome depends on most."""
    if split.reason:
        return f"{NOT_ENOUGH} to say what the outcome depends on: {split.reason}."
    shares = {
        "between initializers": split.initializer,
        "between workloads": split.workload,
        "in which initializer meets which workload": split.interaction,
        "between seeds": split.seed,
    }
    parts = ", ".join(f"{100 * share:.0f} % is {name}" for name, share in sorted(shares.items(), key=lambda s: -s[1]))
    a, i, s = split.shape
    size = f"n = {a} workloads, {i} initializers, {s} seeds; estimated by moments, without interval"
    return f"Of the variance of the {split.unit}, {parts} ({size})."


def _difference(first: str, second: str, found: Estimate, comparisons: int, unit: str, where: str = "") -> str:
    """Return the sentence on a mean difference first - second.

    Args:
        first: label of the one.
        second: label of the other.
        found: over the units, as from `intervals.mean_estimate`.
        comparisons: with which it was made.
        unit: what n counts: ``seed`` or ``workload``.
        where: added to n.
    """
    n = f"n = {counted(found.n, unit)}{where}"
    if not found.has_interval:
        lacking = (
            "an interval takes 3" if found.n < MINIMUM_SEEDS else "it is the same each time, which gives no interval"
        )
        mean = f"{points(found.value)} of test error, " if found.n >= MINIMUM_SEEDS else ""
        return f"{NOT_ENOUGH} that {first} and {second} differ: {mean}{n}; {lacking}."
    if found.low > 0 or found.high < 0:
        size = found if found.low > 0 else Estimate(-found.value, -found.high, -found.low, found.n)
        ends = interval_words(size.clipped(-1, 1), "{:.2f}", 100, comparisons)
        than = "more" if found.low > 0 else "less"
        return f"{first} has {points(size.value)} {than} test error than {second} ({ends} points, {n})."
    needed = seeds_needed(found.value, values_deviation(found, comparisons), comparisons)
    enough = (
        f"a difference of this size takes about {needed} {unit}s"
        if needed
        else f"a difference of this size takes more than {MAXIMUM_SEEDS:,} {unit}s"
    )
    # No two test errors differ by more than 100 points.
    ends = interval_words(found.clipped(-1, 1), "{:.2f}", 100, comparisons)
    return (
        f"{NOT_ENOUGH} that {first} and {second} differ: {points(found.value)} of test error ({ends} points, {n}); "
        f"{enough}."
    )
