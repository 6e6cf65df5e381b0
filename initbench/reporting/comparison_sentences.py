"""Sentences about pairs of treatments, which several questions say: one number with its interval in each.

If no difference is found, a sentence says so and what would be needed; that is never evidence of no difference.
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
from initbench.statistics.power import MAXIMUM_SEEDS


def pair_on_workload(
    first: str, second: str, difference: Estimate, metric: Metric, needed: int | None = None
) -> Sentence:
    """Return which is better by first - second of oriented outcomes over seeds, or how many would be needed."""
    if difference.n == 0:
        text = "{first} and {second} cannot be compared: no seed has a result of both."
    elif math.isnan(difference.value):
        text = "{first} and {second} have no mean difference because a trial diverged; compare their medians."
    elif difference.side():
        return _beats(first, second, difference, metric)
    elif is_same_everywhere(difference):
        return _is_better(first, second, difference, metric, f" at each of {difference.n} seeds")
    else:
        enough = _enough(difference, needed, "seed", " seeds")
        text = f"No difference was found between {{first}} and {{second}}; {enough}."
    return say(text, first=first, second=second, is_open=True)


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
    where = f" {'on' if n == 1 else 'over'} {f'{n} {noun}s' if several and n > 1 else over_words(n, noun)}"
    if n and comparison.is_told:
        if comparison.has_mean:
            return _beats(first, second, comparison.judged, metric, where)
        return _likelier(first, second, comparison, where, measured)
    if comparison.has_mean and not comparison.is_over_seeds and is_same_everywhere(comparison.judged):
        return _is_better(first, second, comparison.judged, metric, f" on each of {n} {noun}s")
    no_difference = f"No difference was found between {{first}} and {{second}}{where}{{measured}}"
    if n == 0:
        text = f"{{first}} and {{second}} cannot be compared: no {noun}{{measured}} has a seed with a result of both"
    elif not comparison.has_mean:
        text = f"{no_difference} because trials diverged; more {noun}s would be needed"
    elif comparison.is_over_seeds:
        few = comparison.judged.n < MINIMUM_SEEDS
        text = f"{no_difference}; {f'at least {MINIMUM_SEEDS} seeds are' if few else 'more seeds would be'} needed"
    else:
        text = f"{no_difference}; {_enough(comparison.judged, comparison.needed, noun, '')}"
    return say(f"{text}.", first=first, second=second, measured=measured, is_open=True)


def needed_text(needed: int | None, units: str = "") -> str:
    """Return ``about 67 seeds would be needed``; without units if the sentence has named them before."""
    if needed is None:
        return f"even {MAXIMUM_SEEDS:,}{units} might not be enough"
    return f"about {count(needed)}{units} would be needed"


def left_out_remark(whole: Complete, results: Results, how: str = "") -> str:
    """Return what a comparison leaves out because not every treatment ran everywhere, empty if nothing.

    Args:
        whole: what is compared.
        results: of the report.
        how: a treatment has to have run, if that is not enough.
    """
    names, terms = results.names, results.terms
    kinds = ((whole.workloads, names.workload), (whole.treatments, names.treatment))
    left = "; ".join(", ".join(map(display, labels)) for labels, display in kinds if labels)
    over = f"Left out of the comparison over {names.noun}s"
    return f"{over}, because not every {terms.treatment} ran everywhere{how}: {left}." if left else ""


def _beats(first: str, second: str, difference: Estimate, metric: Metric, where: str = "") -> Sentence:
    """Return who beats whom by a difference first - second of oriented outcomes."""
    first, second, size = _better_first(first, second, difference, metric)
    return say(f"{{first!b}} beats {{second}}{where} by {{size}}.", first=first, second=second, size=size)


def is_same_everywhere(difference: Estimate) -> bool:
    """Return whether a difference has no interval because it is the same, and not 0, for each of enough values."""
    return difference.n >= MINIMUM_SEEDS and difference.value != 0 and not difference.has_interval


def _is_better(first: str, second: str, difference: Estimate, metric: Metric, where: str) -> Sentence:
    """Return who is better by the same difference everywhere, which no interval can judge."""
    first, second, size = _better_first(first, second, difference, metric)
    text = f"{{first}} is better than {{second}} by {{size}}{where}; an interval needs values that differ."
    return say(text, first=first, second=second, size=size, is_open=True)


def _better_first(first: str, second: str, difference: Estimate, metric: Metric) -> tuple[str, str, str]:
    """Return the better of two by first - second of oriented outcomes, the other, and by how much it is better."""
    if difference.value > 0:
        return second, first, difference_words(difference, metric)
    value, low, high, n = difference
    return first, second, difference_words(Estimate(-value, -high, -low, n), metric)


def _likelier(first: str, second: str, comparison: PairedComparison, where: str, measured: str) -> Sentence:
    chance = comparison.probability_of_improvement
    if comparison.side > 0:
        first, second = second, first
        chance = Estimate(1 - chance.value, 1 - chance.high, 1 - chance.low, chance.n)
    text = f"A run of {{first!b}} beats one of {{second}}{where}{{measured}} with probability {{chance}}."
    return say(text, first=first, second=second, measured=measured, chance=plain_words(chance))


def _enough(difference: Estimate, needed: int | None, unit: str, units: str) -> str:
    """Return what would be needed to tell two apart; without units if the sentence has named them before."""
    if difference.n < MINIMUM_SEEDS:
        return f"at least {MINIMUM_SEEDS}{units} are needed"
    if not difference.has_interval:
        return f"their difference is the same at every {unit}"
    return needed_text(needed, units)
