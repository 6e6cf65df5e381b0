"""Numbers with their intervals as a sentence has them: ``87.2 points (84.2 to 90.2)``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from initbench.comparing.formatting import typeset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.metric import Metric
    from initbench.statistics.intervals import Estimate

_FIXED = re.compile(r"-?\d+(?:\.(\d+))?")
_DIGITS = 2  # of the interval's half-width, that are worth telling


def difference_words(estimate: Estimate, metric: Metric) -> str:
    """Return ``87.2 points (84.2 to 90.2)``, or for a metric without unit ``0.12 in test R² (0.10 to 0.14)``.

    Args:
        estimate: of a difference, in the metric's own direction or of oriented values; with or without an interval.
        metric: of the values.
    """
    texts = _numbers((estimate.value, estimate.low, estimate.high), estimate, metric)
    most = metric.largest_difference
    ends = _numbers(tuple(estimate.clipped(-most, most))[1:3], estimate, metric)
    return interval_words(f"{texts[0]} {metric.points or f'in {metric.title}'}", *ends)


def value_words(values: Sequence[float], metric: Metric) -> str:
    """Return the range of a metric's values, ``2.5 to 3.1 %``, or the value where there is one.

    Args:
        values: in the metric's own direction, finite.
        metric: the metric of these values.
    """
    low, high = (metric.brief(end, unit=False) for end in (min(values), max(values)))
    behind = metric.brief(max(values))
    return behind if low == high else f"{low} to {behind}"


def outcome_words(values: Sequence[float], metric: Metric) -> str:
    """Return values as `value_words` does, with the metric’s title: ``97.1 to 97.5 % test accuracy``.

    Args:
        values: in the metric's own direction, finite.
        metric: the metric of these values; its title may have the unit.
    """
    return f"{value_words(values, metric.beside_title)} {metric.title}"


def mean_words(mean: float, half_width: float, metric: Metric) -> str:
    """Return ``2.54 ± 0.31 %``, or ``2.54 % (0.00 to 11.85)`` if the interval would reach beyond what is possible.

    Args:
        mean: in the metric's own direction.
        half_width: of its interval; NaN if there is none.
        metric: of the mean.
    """
    low, high = metric.bounds
    if mean - half_width < low or mean + half_width > high:
        ends = max(low, mean - half_width), min(high, mean + half_width)
        return interval_words(metric.text(mean), *map(metric.number, ends))
    return metric.text(mean, half_width)


def share_words(estimate: Estimate) -> str:
    """Return a share of 1 in percent, ``50 % (9 to 91)``."""
    value, low, high = (f"{100 * part:.0f}" if math.isfinite(part) else "" for part in estimate[:3])
    return interval_words(f"{value}\N{NO-BREAK SPACE}%", low, high)


def plain_words(estimate: Estimate, form: str = "{:.2f}", unit: str = "") -> str:
    """Return a number that is no metric's, ``0.93 (0.80 to 1.00)``, ``2.10 ranks (0.30 to 3.90)``.

    Args:
        estimate: of any kind.
        form: of its numbers, such as ``{:+.2f}`` for a correlation.
        unit: behind it, if any.
    """
    value, low, high = (typeset(form.format(part)) if math.isfinite(part) else "" for part in estimate[:3])
    return interval_words(f"{value} {unit}".rstrip(), low, high)


def interval_words(value: str, low: str, high: str) -> str:
    """Return ``value (low to high)``, or the value if there are no ends."""
    return f"{value} ({low} to {high})" if low and high else value


def over_words(number: int, noun: str) -> str:
    """Return ``one workload``, ``both workloads`` or ``4 workloads``.

    Args:
        number: the number of workloads.
        noun: a workload in one word (`names.Names.noun`).
    """
    return f"one {noun}" if number == 1 else f"both {noun}s" if number == 2 else f"{number} {noun}s"


def _numbers(values: Sequence[float], estimate: Estimate, metric: Metric) -> list[str]:
    """Return values with no more decimals than their interval is worth, and never more than the metric has.

    An end that is not 0 never reads as 0 where the metric's own format tells it from 0.
    """
    texts = [metric.number(value) if math.isfinite(value) else "" for value in values]
    matches = [_FIXED.fullmatch(text) for text in texts if text]
    width = abs(metric.scale) * estimate.half_width
    if not all(matches) or not 0 < width < math.inf:
        return texts
    most = max((len(match[1] or "") for match in matches if match), default=0)
    for decimals in range(max(0, _DIGITS - 1 - math.floor(math.log10(width))), most):
        rounded = [f"{metric.scale * value:.{decimals}f}" if math.isfinite(value) else "" for value in values]
        vanishes = any(text and not float(text) and float(exact) for text, exact in zip(rounded, texts, strict=True))
        if not vanishes:
            return [text.removeprefix("-") if text and not float(text) else text for text in rounded]
    return texts
