"""Decisions: p-values corrected for their number, and a test and an interval that must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from initbench.statistics.intervals import Estimate

ALPHA = 0.05


def adjust(pvalues: ArrayLike, method: Literal["holm", "benjamini-hochberg"]) -> NDArray[np.float64]:
    """Return p-values corrected for their number, shape (n,); NaN stays NaN and is not counted.

    Args:
        pvalues: shape (n,).
        method: ``holm`` bounds the probability that any null is rejected (Holm, Scand. J. Stat. 6 (1979) 65-70);
            ``benjamini-hochberg`` the expected share of nulls among the rejected (J. R. Stat. Soc. B 57 (1995) 289).
    """
    p = np.asarray(pvalues, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known])]
    n = len(order)
    # Not statsmodels' multipletests, which runs the garbage collector at each call.
    if method == "holm":
        raw = np.maximum.accumulate(p[order] * np.arange(n, 0, -1))
    else:
        raw = np.minimum.accumulate((p[order] / (np.arange(1, n + 1) / n))[::-1])[::-1]
    adjusted[order] = np.minimum(raw, 1.0)
    return adjusted


def holm_comparisons(pvalues: ArrayLike, claims: int = 1) -> NDArray[np.int64]:
    """Return by how many each p-value is multiplied at its step of Holm's procedure, shape (n,).

    A null is rejected if and only if its p-value is below 5 % over its number: m for the least of m, m - 1 for the
    next, and so on; from the first that is not rejected on, the number stays.

    Args:
        pvalues: shape (n,), none of them NaN.
        claims: the number of families that share the 5 %; it multiplies all numbers.
    """
    p = np.asarray(pvalues, dtype=float)
    order = np.argsort(p, kind="stable")
    steps = claims * (len(p) - np.arange(len(p)))
    kept = np.flatnonzero(~(p[order] < ALPHA / np.maximum(steps, 1)))
    if len(kept):
        steps[kept[0] :] = steps[kept[0]]
    numbers = np.empty(len(p), dtype=np.int64)
    numbers[order] = steps
    return numbers


def is_rejected(pvalue: float, estimate: Estimate, no_effect: float = 0.0) -> bool:
    """Return whether a test rejects and the interval, if there is one, excludes the value of no effect.

    Both must agree before anything is claimed: their assumptions differ, so one may reject where the other does not.
    """
    return pvalue < ALPHA and (not estimate.has_interval or estimate.side(no_effect) != 0)
