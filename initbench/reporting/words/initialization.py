"""What an initialization did and left, in sentences: tuning, and values by layer."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from initbench.comparing.formatting import capitalized
from initbench.reporting.sentence import Sentence
from initbench.reporting.words.sentence import bolded, first_fitting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from initbench.comparing.labels import Names
    from initbench.metric import Metric

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain_number(value: float) -> str:
    """Return a number of any size with two or three significant digits: ``0.41``, ``1,840`` or ``3.1·10⁻⁹``."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def quantity_words(name: str) -> str:
    """Return the name of a measurement in words.

    That is ``gradient norm`` for ``gradient_norm.per_layer``, and ``mean square (signal by depth)`` for
    ``signal_by_depth.mean_square``, one of several of its probe.
    """
    words = re.sub(r"_(?![^\[(]*[\])])", " ", name.removesuffix(".per_layer"))
    several = re.fullmatch(r"(.*)\.([^.\[\]()]+)", words)
    return f"{several[2]} ({several[1]})" if several else words


def short_quantities(probes: Iterable[str]) -> dict[str, str]:
    """Return the names of measurements in words, for axes and titles: without arguments where they tell none apart.

    Args:
        probes: the names of all that a report has.
    """
    names = list(dict.fromkeys(probes))
    bare = {name: quantity_words(re.sub(r"\[.*\]", "", name)) for name in names}
    alike = Counter(bare.values())
    return {name: words if alike[words] == 1 else quantity_words(name) for name, words in bare.items()}


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


def levels(probe: str, kind: str, workload: str, low: tuple[str, float], high: tuple[str, float]) -> Sentence:
    """Return between which typical sizes the values of two treatments lie.

    Args:
        probe: its name.
        kind: ``per_layer`` or ``curve``.
        workload: where they lie farthest apart.
        low: the treatment with the smallest, and its typical value.
        high: likewise, with the largest.
    """
    what = quantity_words(probe)
    whose = f"a layer’s typical {what}" if kind == "per_layer" else f"the last {what}"
    (first, small), (second, large) = ((name, plain_number(value)) for name, value in (low, high))
    return bolded(
        first_fitting(
            f"On {workload}, {whose} is {small} with {first} and {large} with {second}.",
            f"{capitalized(whose)} is {small} with {first} and {large} with {second}.",
            f"{capitalized(whose)} ranges from {small} to {large}.",
        ),
        (workload, first, second),
        subject=probe,
    )


def one_level(probe: str, kind: str, workload: str, treatment: str, ends: tuple[float, float]) -> Sentence:
    """Return between which sizes the values of one treatment lie.

    Args:
        probe: its name.
        kind: ``per_layer`` or ``curve``.
        workload: where that is.
        treatment: the only one there.
        ends: the smallest and the largest size.
    """
    what = f"{quantity_words(probe)}{' of a layer' if kind == 'per_layer' else ''}"
    span = f"between {plain_number(ends[0])} and {plain_number(ends[1])}"
    return bolded(
        first_fitting(f"On {workload}, the {what} is {span} with {treatment}.", f"The {what} is {span}."),
        (workload, treatment),
        subject=probe,
    )


def widest_span(probe: str, workload: str, treatment: str, factor: float) -> Sentence:
    """Return where the values differ most between the layers of one network.

    Args:
        probe: its name.
        workload: where that is.
        treatment: likewise.
        factor: by which the largest is larger than the smallest; +∞ where that is 0.
    """
    what = quantity_words(probe)
    by = f"{plain_number(factor)}-fold" if math.isfinite(factor) else "down to 0"
    return bolded(
        first_fitting(
            f"Between the layers of one network the {what} varies most with {treatment} on {workload}: {by}.",
            f"Between the layers of one network the {what} varies most {by}.",
        ),
        (treatment, workload),
        subject=probe,
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


def nothing_finite(probe: str) -> Sentence:
    """Return that a probe has no value that could be drawn."""
    return bolded(
        first_fitting(f"No value of {quantity_words(probe)} is finite.", "A measurement has no finite value."),
        subject=probe,
    )
