"""Power laws: how a quantity grows with a size, such as the width of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from initbench.errors import InitbenchError
from initbench.statistics.intervals import Estimate, mean_estimate


def exponent_over_seeds(sizes: Sequence[float], values: ArrayLike) -> Estimate:
    """Return the mean over seeds of each seed's exponent b of a power law a·size^b, with Student's interval.

    A seed's exponent is the slope of the least-squares line through log2(value) over log2(size).

    Args:
        sizes: such as widths, (sizes,); at least two different ones.
        values: (sizes, seeds), finite and above 0.

    Raises:
        InitbenchError: there are fewer than two sizes, or a value is not a finite number above 0: a quantity that is 0,
            such as the change of a layer that nothing has moved, has no exponent.
    """
    known = np.asarray(values, dtype=float)
    if len(set(sizes)) < 2 or not (np.isfinite(known).all() and (known > 0).all()):
        raise InitbenchError(
            "an exponent needs two sizes and finite values above 0: a layer that has not moved has none"
        )
    x, y = np.log2(np.asarray(sizes, dtype=float)), np.log2(known)
    centred = x - x.mean()
    return mean_estimate(centred @ y / (centred @ centred))
