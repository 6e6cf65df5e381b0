"""Numbers as a reader wants them; an en dash stands where there is none."""

from __future__ import annotations

import math


def percent(fraction: float, half_width: float = math.nan) -> str:
    """Return ``3.06 %`` or ``3.06 ± 0.68 %`` for fractions."""
    if math.isnan(fraction):
        return "–"
    interval = "" if math.isnan(half_width) else f" ± {100 * half_width:.2f}"
    return f"{100 * fraction:.2f}{interval}\N{NO-BREAK SPACE}%"


def outcome(fraction: float) -> str:
    """Return a test error in percent, ``diverged`` for +∞."""
    return "diverged" if math.isinf(fraction) else percent(fraction)


def quotient(value: float) -> str:
    """Return a gradient quotient with three significant digits."""
    if math.isinf(value):
        return "∞"
    return "–" if math.isnan(value) else f"{value:#.3g}".rstrip(".")


def count(value: float) -> str:
    """Return a whole number with its thousands separated."""
    return "–" if math.isnan(value) else f"{int(value):,}"


def duration(seconds: float) -> str:
    """Return seconds as ``8.30 s`` or, from 100 on, ``2.5 min``."""
    if math.isnan(seconds):
        return "–"
    return f"{seconds:.2f}\N{NO-BREAK SPACE}s" if seconds < 100 else f"{seconds / 60:.1f}\N{NO-BREAK SPACE}min"


FILTERS = {"percent": percent, "outcome": outcome, "quotient": quotient, "duration": duration, "count": count}
"""The names under which the pages' templates use them."""
