"""Numbers as text; an en dash replaces a missing number."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_EXPONENT = re.compile(r"(?<!\w)(\d+)e([+-]?\d+)(?!\w)")
_ONE_TIMES = re.compile(r"(?<![\d.,])1·(?=10)")
_HYPHEN = re.compile(r"(?<!\w)-(?=[\d.∞])")
_POWER = re.compile(r"(?:([\d.]+)·)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NORMAL = {high: low for low, high in _SUPERSCRIPT.items()}


def percent(fraction: float) -> str:
    """Return a share of 1, such as a rate: ``3.06 %``. Metrics format their own values (`Metric.text`)."""
    return "–" if math.isnan(fraction) else f"{100 * fraction:.2f}\N{NO-BREAK SPACE}%"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def quotient(value: float) -> str:
    """Return a gradient quotient with three significant digits."""
    if math.isinf(value):
        return "∞"
    return "–" if math.isnan(value) else f"{value:#.3g}".rstrip(".")


def count(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Return seconds as ``8.30 s`` or, from 100 on, ``2.5 min``."""
    if math.isnan(seconds):
        return "–"
    return f"{seconds:.2f}\N{NO-BREAK SPACE}s" if seconds < 100 else f"{seconds / 60:.1f}\N{NO-BREAK SPACE}min"


def points(fraction: float) -> str:
    """Return a difference of two fractions in percentage points, with its sign: ``+1.30``."""
    if math.isinf(fraction):
        return "∞" if fraction > 0 else "-∞"
    return "–" if math.isnan(fraction) else f"{100 * fraction:+.2f}"


def steps(value: float) -> str:
    """Return a number of training steps, in words if it is +∞ or below 1."""
    if math.isinf(value):
        return "not reached"
    return "less than 1" if 0 < value < 1 else count(value)


def coefficient(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.2f}"


def share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def probability(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}"


def typeset(text: str) -> str:
    """Return the text of numbers with minus signs and powers of ten: ``−0.50``, ``4.45·10⁻⁹``, ``10⁻⁸``."""
    powers = _EXPONENT.sub(lambda number: f"{number[1]}·10{str(int(number[2])).translate(_SUPERSCRIPT)}", text)
    return _HYPHEN.sub("\N{MINUS SIGN}", _ONE_TIMES.sub("", powers))


def without_superscripts(text: str) -> str:
    """Return ``1e-8`` for ``10⁻⁸``, and ``2e-9`` for ``2·10⁻⁹``."""
    return _POWER.sub(lambda number: f"{number[1] or 1}e{number[2].translate(_NORMAL)}", text)


def text(value: object) -> str:
    """Return text unchanged, and an en dash for a missing one."""
    return "–" if value is None or value != value or value == "" else str(value)  # noqa: PLR0124  # NaN alone


def counted(number: int, what: str) -> str:
    """Return ``1 seed`` or ``3 seeds``."""
    return f"{number} {what}{'s' if number != 1 else ''}"


def listed(names: Sequence[str], conjunction: str = "and") -> str:
    """Return ``a``, ``a and b`` or ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


# A number with decimals stands alone: `layers.2.10` has whole ones.
_NUMBER = re.compile(r"((?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])|\d+)")


def natural(text: str) -> list[tuple[float, str]]:
    """Return a sort key that puts ``depth=16`` before ``depth=100``, and ``lr=0.05`` before ``lr=0.1``."""
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(_NUMBER.split(text))]


_WRITERS = (percent, capitalized, quotient, duration, count, points, steps, coefficient, share, probability, text)
FILTERS: dict[str, Callable[..., str]] = {function.__name__: function for function in _WRITERS}
"""The names of these functions in the pages' templates."""
