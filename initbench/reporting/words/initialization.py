"""What an initialization did and left, in sentences: tuning, and values by layer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.quantities import plain_number, quantity_words
from initbench.reporting.sentence import Sentence
from initbench.reporting.words.sentence import bolded, first_fitting

if TYPE_CHECKING:
    from initbench.comparing.labels import Names
    from initbench.metric import Metric


def tuned(
    names: Names,
    treatment: str,
    quantity: str,
    counts: tuple[int, int],
    workload: str,
    ends: tuple[float, float],
    steps: int,
) -> Sentence:
    """Return what a tuner makes of its objective.

    Args:
        names: of the report.
        treatment: the tuner's label.
        quantity: its objective, as in the record.
        counts: on how many workloads it is lower at the end, and of how many.
        workload: the label of that where it changes most.
        ends: there, the median at the first and at the last step.
        steps: how many these are.
    """
    who, where, what = names.treatment(treatment), names.workload(workload), quantity_words(quantity)
    change = f"from {plain_number(ends[0])} to {plain_number(ends[1])} in {steps:,} step{'s' if steps != 1 else ''}"
    lowered, count = counts
    verb = "lowers" if lowered else "does not lower"
    if count == 1:
        texts = [f"On {where}, {who} {verb} the {what}: {change}."]
    else:
        every = "both " if count == 2 else f"all {count} "
        on = f"on {lowered} of {names.workloads_of(count)}" if lowered else f"on any of {names.workloads_of(count)}"
        on = f"on {every}{names.noun}s" if lowered == count else on
        texts = [
            f"{who} {verb} the {what} {on}, most on {where}: {change}."
            if lowered
            else f"{who} {verb} the {what} {on}; on {where} it goes {change}.",
            f"{who} {verb} the {what} {on}, such as {change}.",
        ]
    return bolded(first_fitting(*texts, f"Tuning takes the {what} {change}."), (who, where))


def scaled(names: Names, treatment: str, workload: str, smallest: float, largest: float) -> Sentence:
    """Return by what a treatment multiplies the weights that it starts from, where it tells no objective."""
    who, where = names.treatment(treatment), names.workload(workload)
    span = f"by {plain_number(smallest)} to {plain_number(largest)}"
    return bolded(
        first_fitting(f"On {where}, {who} scales the weights of its base {span}.", f"Weights are scaled {span}."),
        (who, where),
    )


def gained(names: Names, metric: Metric, workload: str, base: tuple[str, float], own: tuple[str, float]) -> Sentence:
    """Return the outcome from a tuner's base and after tuning.

    Args:
        names: of the report.
        metric: of the outcome.
        workload: its label.
        base: the label of the treatment from which it starts, and its median outcome.
        own: likewise of the tuner.
    """
    where = names.workload(workload)
    (first, before), (second, after) = (
        (names.treatment(label), metric.beside_title.text(value) if math.isfinite(value) else "divergence")
        for label, value in (base, own)
    )
    return bolded(
        first_fitting(
            f"On {where}, tuning takes the {metric.title} from {before} ({first}) to {after} ({second}).",
            f"On {where}, tuning takes the {metric.title} from {before} to {after}.",
            f"Tuning takes the {metric.title} from {before} to {after}.",
        ),
        (where, first, second),
    )


def by_steps(
    names: Names, treatment: str, probe: str, workload: str, first: tuple[float, float], last: tuple[float, float]
) -> Sentence:
    """Return what a measurement is with the fewest and with the most steps of a tuner.

    Args:
        names: of the tuners, their numbers of steps aside, and of the workloads.
        treatment: the tuner's label.
        probe: the measurement's name.
        workload: its label.
        first: the fewest steps, 0 for the tuner's base, and the median there.
        last: likewise, with the most.
    """
    who, where, what = names.treatment(treatment), names.workload(workload), quantity_words(probe)
    ends = f"{plain_number(first[1])} after {first[0]:,.0f} and {plain_number(last[1])} after {last[0]:,.0f} steps"
    return bolded(
        first_fitting(
            f"On {where}, the {what} is {ends} of {who}.",
            f"The {what} is {ends} of {who}.",
            f"The {what} is {ends}.",
        ),
        (where, who),
        subject=probe,
    )
