"""Sentences about pairs of treatments, which several questions say: one number with its interval in each.

If a pair is not told apart, a sentence says so and what would be needed; that is never evidence of no difference.
"""

from __future__ import annotations

import math

from initbench.comparing.formatting import count
from initbench.metric import Metric
from initbench.reporting.results import Results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.sizes import difference_words, over_words, plain_words
from initbench.statistics.cells import Complete
from initbench.statistics.intervals import MINIMUM_SEEDS, Estimate
from initbench.statistics.paired import PairedComparison
from initbench.statistics.power import MAXIMUM_SEEDS, number_needed


def pair_on_workload(
    first: str, second: str, difference: Estimate, metric: Metric, comparisons: int = 1, *, subject: str = ""
) -> Sentence:
    """Return which is better by first - second of oriented outcomes over seeds, or how many would be needed."""
    text = ""
    if difference.n == 0:
        text = "{first} and {second} cannot be compared: no seed has a result of both."
    elif math.isnan(difference.value):
        text = "{first} and {second} have no mean difference because a trial diverged; compare their medians."
    if text:
        return say(text, first=first, second=second, is_open=True, subject=subject)
    return _by_mean(first, second, difference, metric, comparisons, "seed", subject=subject)


def pair_over_workloads(
    first: str,
    second: str,
    comparison: PairedComparison,
    metric: Metric,
    noun: str = "workload",
    *,
    several: bool = False,
) -> Sentence:
    """Return which of two treatments is better over workloads, or how many workloads would be needed.

    If a trial diverged, there is no mean difference, and the probability of improvement decides. On a single workload
    the difference over its seeds decides. If there are several metrics, a sentence without a size names this one.
    """
    n, measured = comparison.workloads, f" measured by {metric.title}" if several else ""
    if n == 0:
        text = f"{{first}} and {{second}} cannot be compared: no {noun}{{measured}} has a seed with a result of both."
        return say(text, first=first, second=second, measured=measured, is_open=True)
    where = f" {'on' if n == 1 else 'over'} {f'{n} {noun}s' if several and n > 1 else over_words(n, noun)}"
    if comparison.has_mean:
        unit = "seed" if comparison.is_over_seeds else noun
        return _by_mean(first, second, comparison.judged, metric, comparison.comparisons, unit, where, measured)
    if not comparison.is_told:
        text = f"{{first}} and {{second}} cannot be told apart{where}{{measured}} because trials diverged; "
        text += f"more {noun}s would be needed."
        return say(text, first=first, second=second, measured=measured, is_open=True)
    chance = comparison.probability_of_improvement
    if comparison.side > 0:
        first, second = second, first
        chance = Estimate(1 - chance.value, 1 - chance.high, 1 - chance.low, chance.n)
    text = f"A run of {{first!b}} beats one of {{second}}{where}{{measured}} with probability {{chance}}."
    return say(text, first=first, second=second, measured=measured, chance=plain_words(chance))


def needed_text(needed: int | None, units: str = "") -> str:
    """Return ``about 67 seeds would be needed``; the units are empty if the sentence has named them before."""
    units = f" {units}" if units else ""
    if needed is None:
        return f"even {MAXIMUM_SEEDS:,}{units} might not be enough"
    return f"about {count(needed)}{units} would be needed"


def left_out_remark(whole: Complete, results: Results, reason: str = "ran") -> str:
    """Return what a comparison leaves out because not every treatment did something everywhere, empty if nothing."""
    names, terms = results.names, results.terms
    kinds = ((whole.workloads, names.workload), (whole.treatments, names.treatment))
    left = "; ".join(", ".join(map(display, labels)) for labels, display in kinds if labels)
    over = f"Left out of the comparison over {names.noun}s"
    return f"{over}, because not every {terms.treatment} {reason} everywhere: {left}." if left else ""


def _by_mean(
    first: str,
    second: str,
    difference: Estimate,
    metric: Metric,
    comparisons: int,
    unit: str,
    where: str = "",
    measured: str = "",
    subject: str = "",
) -> Sentence:
    """Return the sentence on a mean difference first - second of oriented outcomes, whose n counts the unit."""
    if side := difference.side():
        winner, loser = (first, second) if side < 0 else (second, first)
        if side < 0:
            difference = Estimate(-difference.value, -difference.high, -difference.low, difference.n)
        size = difference_words(difference, metric)
        text = f"{{winner!b}} beats {{loser}}{where} by {{size}}."
        return say(text, winner=winner, loser=loser, size=size, subject=subject)
    units = "" if unit in where else f"{unit}s"
    if difference.n < MINIMUM_SEEDS:
        enough = f"at least {MINIMUM_SEEDS} {units}".rstrip() + " are needed"
    elif not difference.has_interval:
        enough = f"their difference is the same at every {unit}"
    else:
        enough = needed_text(number_needed(difference, comparisons), units)
    text = f"{{first}} and {{second}} cannot be told apart{where}{{measured}}; {enough}."
    return say(text, first=first, second=second, measured=measured, is_open=True, subject=subject)
