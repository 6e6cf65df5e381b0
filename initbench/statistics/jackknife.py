"""An interval for any statistic of a table, over the treatments as a sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from initbench.statistics.intervals import Estimate, mean_estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def jackknife(
    statistic: Callable[[NDArray[np.intp]], float], treatments: int, unit: NDArray[np.intp] | None = None
) -> Estimate:
    """Return a statistic of all treatments, with Student's interval over its jackknife pseudo-values.

    The k pseudo-values are k θ - (k - 1) θ₋ᵢ, θ₋ᵢ without treatment i; their standard error around θ, and Student's t
    with k - 1 degrees of freedom (Tukey, Ann. Math. Stat. 29 (1958) 614; Efron and Stein, Ann. Stat. 9 (1981) 586).
    Leaving out a column leaves out all that is peculiar to a treatment, on every workload at once.

    Args:
        statistic: of the indices of the treatments to use.
        treatments: their number k; no interval below 5, or where the statistic without one of them is NaN.
        unit: what they are left out by, (treatments,), as from `exchange.units`; k is then the number of these.
    """
    every = np.arange(treatments)
    unit = every if unit is None else unit
    each = np.unique(unit)
    k, value = len(each), statistic(every)
    nothing = Estimate(value, math.nan, math.nan, treatments)
    if k < 5 or math.isnan(value):
        return nothing
    without = np.array([statistic(every[unit != u]) for u in each])
    pseudo = mean_estimate(k * value - (k - 1) * without)
    if not pseudo.has_interval:
        return nothing
    return Estimate(value, value - pseudo.half_width, value + pseudo.half_width, treatments)
