"""How a claim is decided, and the statistics that the list of claims asks for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HELD, NOT_HELD, UNDECIDED = "held", "did not hold", "undecided"


def decide(held: bool, not_held: bool) -> str:
    """Return the status of a claim from its two criteria; what meets neither is undecided.

    Raises:
        ValueError: both are met, so that one of them is wrong.
    """
    if held and not_held:
        raise ValueError("held and not held at once")
    return HELD if held else NOT_HELD if not_held else UNDECIDED


def every(flags: Iterable[bool], share: float = 1.0) -> bool:
    """Return whether a share of the seeds agrees; of fewer than three seeds nothing is said."""
    known = list(flags)
    return len(known) >= 3 and sum(known) >= math.ceil(share * len(known) - 1e-9)


def interval(sample: list[float], level: float = 0.95) -> tuple[float, float]:
    """Return Student's interval of the mean, without end on both sides if it is not known."""
    if len(sample) < 3 or not all(map(math.isfinite, sample)):
        return -math.inf, math.inf
    half = stats.t.ppf((1 + level) / 2, len(sample) - 1) * np.std(sample, ddof=1) / math.sqrt(len(sample))
    return float(np.mean(sample) - half), float(np.mean(sample) + half)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the slope of the straight line of least squares."""
    return float(np.polyfit(x, y, 1)[0])


def departure(sample: Sequence[float], expected: float) -> float:
    """Return how many standard errors a sample's mean is away from a number."""
    return float(abs(np.mean(sample) - expected) * math.sqrt(len(sample)) / np.std(sample, ddof=1))
