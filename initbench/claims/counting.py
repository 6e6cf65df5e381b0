"""Verdicts by counting seeds, and the means of values of which some may not be finite."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from initbench.statistics.intervals import Estimate, mean_estimate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from initbench.claims.verdict import Status

LEAST_SEEDS = 3
"""Below these nothing is held: one of two seeds, or two of two, tell too little."""


def counted_status(
    met: NDArray[np.bool_], opposed: NDArray[np.bool_], held_at: float | Literal["any"], refuted_at: float
) -> Status:
    """Return what a criterion comes to that is judged seed by seed.

    Args:
        met: whether each seed meets it, shape (seeds,).
        opposed: whether each speaks against it; none that meets it does.
        held_at: the share of the seeds that must meet it, or ``any`` for one.
        refuted_at: the share that refutes it where it is not held.
    """
    if is_share(met, 0.0 if held_at == "any" else held_at):
        return "held" if len(met) >= LEAST_SEEDS else "undecided"
    return "did not hold" if is_share(opposed, refuted_at) else "undecided"


def is_share(which: NDArray[np.bool_], share: float) -> bool:
    """Return whether so large a share is such, at least one; 4 of 5 are a share of 0.8."""
    return int(which.sum()) >= max(1, math.ceil(share * len(which) - 1e-9))


def within(values: NDArray[np.float64], at_least: float | None, at_most: float | None) -> NDArray[np.bool_]:
    """Return whether each value lies between bounds, of which one may be None; NaN does not."""
    low = -math.inf if at_least is None else at_least
    high = math.inf if at_most is None else at_most
    return (values >= low) & (values <= high)


def mean_or_median(values: NDArray[np.float64]) -> Estimate:
    """Return a mean with its interval; where a value is not finite the median, without one."""
    if np.isfinite(values).all():
        return mean_estimate(values)
    with np.errstate(invalid="ignore"):
        return Estimate(float(np.median(values)), math.nan, math.nan, len(values))
