"""Whether a network has learned anything, and whether it trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

STANDARD_ERRORS = 2.576
"""The two-sided 99 % quantile of the normal distribution."""
JUDGED = ("oriented", "oriented_chance", "chance_standard_error", "oriented_best")
"""The columns of trials that `is_trained` takes, in order."""
SHARE = 0.02
"""A share of the distance from chance to the best possible value."""
TRAINS = 0.5
"""A seed trains if it comes at least this share of the way from chance to the best median of its workload."""


def is_trained(
    outcome: ArrayLike, chance: ArrayLike, standard_error: ArrayLike, best: ArrayLike
) -> NDArray[np.float64]:
    """Return 1 if an outcome is better than chance, 0 if it is not, NaN if that is unknown.

    All values are turned so that lower is better (`Metric.oriented`). The outcome o must be below the chance level c by
    more than 2.576 of c's standard errors and by more than 2 % of the distance c - b to the best value b. If b or the
    standard error is unknown, the other condition decides alone. If not even the best value is 2.576 standard errors
    below chance, as on a few samples or with a rare class, no network can show that it has learned: unknown.

    Args:
        outcome: shape (n,) or a number; +∞ for a diverged trial, which is not trained; NaN if there is none.
        chance: c, likewise; NaN if unknown.
        standard_error: of c; NaN if unknown, for example for a split of one sample.
        best: b; NaN if there is no best value.

    Returns:
        The common shape of the arguments.
    """
    o, c, error, b = (np.asarray(x, dtype=float) for x in (outcome, chance, standard_error, best))
    gain = c - o
    above_noise = np.isnan(error) | (gain > STANDARD_ERRORS * error)
    above_share = np.isnan(b) | (gain > SHARE * (c - b))
    unknown = np.isnan(o) | np.isnan(c) | (np.isnan(error) & np.isnan(b)) | (c - b <= STANDARD_ERRORS * error)
    return np.where(unknown, np.nan, (above_noise & above_share).astype(float))
