"""Words that the verdicts share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.reporting.formatting import counted

if TYPE_CHECKING:
    from initbench.reporting.statistics.intervals import Estimate

NOT_ENOUGH = "Not enough evidence"


def points(fraction: float) -> str:
    """Return a difference of two fractions in percentage points: ``1.30 points``."""
    # Adding 0 makes a rounded -0 a 0.
    return f"{round(100 * fraction, 2) + 0.0:.2f} points"


def interval_words(estimate: Estimate, form: str, scale: float = 1.0, comparisons: int = 1) -> str:
    """Return ``95 % interval 0.10 to 0.30``, or that there is none.

    Args:
        estimate: of any unit.
        form: of the ends, such as ``{:.2f}``.
        scale: by which they are multiplied.
        comparisons: how many such intervals hold at once.
    """
    if not estimate.has_interval:
        return "no interval"
    level = "95 % interval" + (f", simultaneous over {comparisons} comparisons," if comparisons > 1 else "")
    return f"{level} {form.format(scale * estimate.low)} to {form.format(scale * estimate.high)}"


def n_workloads(workloads: int) -> str:
    """Return ``n = 5 workloads``."""
    return f"n = {workloads_words(workloads)}"


def workloads_words(count: int) -> str:
    """Return ``5 workloads``."""
    return counted(count, "workload")


def trials_words(count: int) -> str:
    """Return ``1 trial``."""
    return counted(count, "trial")
