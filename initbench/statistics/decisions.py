"""What is told: a test that rejects, and an interval that agrees with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.statistics.ranks import ALPHA

if TYPE_CHECKING:
    from initbench.statistics.intervals import Estimate


def is_rejected(pvalue: float, estimate: Estimate, no_effect: float = 0.0) -> bool:
    """Return whether a test rejects and the interval, where there is one, does not hold the value of no effect.

    Both are to agree before anything is claimed: they rest on different assumptions, and one may reject alone.

    Args:
        pvalue: after the correction for several tests, if any; NaN rejects nothing.
        estimate: of the same effect.
        no_effect: the value of no effect.
    """
    return pvalue < ALPHA and (not estimate.has_interval or estimate.side(no_effect) != 0)
