"""Power laws: how a quantity grows with a size, such as the width of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from initbench.errors import InitbenchError
from initbench.statistics.intervals import Estimate, mean_estimate


class Exponent(NamedTuple):
    """The exponent b of a power law a·size^b.

    Attributes:
        value: the slope of the least-squares line through log2(value) over log2(size).
        standard_error: of the slope, from the distances to the line.
    """

    value: float
    standard_error: float


def exponent_over_seeds(sizes: Sequence[float], values: ArrayLike) -> Estimate:
    """Return the mean over seeds of each seed's exponent, with Student's interval.

    Args:
        sizes: such as widths, (sizes,); at least two different ones.
        values: (sizes, seeds), finite and above 0.

    Raises:
        InitbenchError: as `exponent`.
    """
    known = np.asarray(values, dtype=float)
    if len(set(sizes)) < 2 or not (np.isfinite(known).all() and (known > 0).all()):
        raise InitbenchError(
            "an exponent needs two sizes and finite values above 0: a layer that has not moved has none"
        )
    x, y = np.log2(np.asarray(sizes, dtype=float)), np.log2(known)
    centred = x - x.mean()
    return mean_estimate(centred @ y / (centred @ centred))


def exponent(sizes: Sequence[float], values: ArrayLike) -> Exponent:
    """Return the exponent of values that belong to sizes.

    Args:
        sizes: such as widths, (sizes,); at least two different ones.
        values: (sizes,), or (sizes, repeats) with several values of each size, at least three in total.

    Raises:
        InitbenchError: there are too few points, or a size or value is not a finite number above 0: a quantity that is
            0, such as the change of a layer that nothing has moved, has no exponent.
    """
    known = np.atleast_2d(np.asarray(values, dtype=float).T).T
    if len(known) != len(sizes) or known.size < 3 or len(set(sizes)) < 2:
        raise InitbenchError(
            f"an exponent needs at least two sizes and three values, got {len(sizes)} and {known.size}"
        )
    x, y = np.repeat(np.asarray(sizes, dtype=float), known.shape[1]), known.ravel()
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (x > 0).all() and (y > 0).all()):
        raise InitbenchError("an exponent needs finite values above 0: a layer that has not moved has none")
    x, y = np.log2(x), np.log2(y)
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    distances = y - y.mean() - slope * centred
    error = np.sqrt(distances @ distances / (len(x) - 2) / (centred @ centred))
    return Exponent(float(slope), float(error))
