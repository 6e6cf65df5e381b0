"""The order in which a probe puts the treatments of one workload, compared with the order of their outcomes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.intervals import CONFIDENCE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MINIMUM_TREATMENTS = 5
# Variances of Fisher's z for Spearman's ρ and Kendall's τ (Fieller, Hartley and Pearson, Biometrika 44 (1957)
# 470-481): 1.06 / (n - 3) and 0.437 / (n - 4).
SPEARMAN, KENDALL = (1.06, 3), (0.437, 4)


def associations(probe: pd.DataFrame, outcome: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's ρ and Kendall's τ-b over the treatments of each workload, with 95 % intervals.

    The interval is tanh(arctanh r ± 1.96 σ), σ² = 1.06 / (n - 3) for ρ and 0.437 / (n - 4) for τ (`fisher_interval`).
    It takes the treatments as a sample, and is wide if they are few. There is no coefficient below 5 treatments, nor if
    one side is constant.

    Args:
        probe: workloads × treatments, NaN for values that were not measured or are to be left out, +∞ for values too
            large to store.
        outcome: likewise, +∞ for a diverged cell.

    Returns:
        One row per workload of `outcome`: ``workload``, ``n`` (treatments with both), ``rho, rho_low, rho_high, tau,
        tau_low, tau_high``, and ``remark``: why there is no coefficient, otherwise empty.
    """
    rows = []
    for workload, row_x, row_y in zip(outcome.index, *aligned(probe, outcome), strict=True):
        both = ~np.isnan(row_x)
        x, y, n = row_x[both], row_y[both], int(both.sum())
        row: dict[str, object] = {"workload": workload, "n": n}
        remark = ""
        if n < MINIMUM_TREATMENTS:
            remark = f"not enough treatments (n = {n})"
        elif len(np.unique(x)) == 1 or len(np.unique(y)) == 1:
            remark = "all values are equal"
        else:
            rho, tau = float(stats.spearmanr(x, y).statistic), float(stats.kendalltau(x, y).statistic)
            row |= {"rho": rho, "tau": tau}
            row["rho_low"], row["rho_high"] = fisher_interval(rho, n, *SPEARMAN)
            row["tau_low"], row["tau_high"] = fisher_interval(tau, n, *KENDALL)
        rows.append(row | {"remark": remark})
    columns = ["workload", "n", "rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high", "remark"]
    return pd.DataFrame(rows, columns=columns)


def aligned(probe: pd.DataFrame, outcome: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both tables as arrays (workloads × treatments of `outcome`), NaN wherever either lacks a value."""
    x = probe.reindex(index=outcome.index, columns=outcome.columns).to_numpy(dtype=float)
    y = outcome.to_numpy(dtype=float)
    missing = np.isnan(x) | np.isnan(y)
    return np.where(missing, np.nan, x), np.where(missing, np.nan, y)


def fisher_interval(r: float, n: int, factor: float, lost: int) -> tuple[float, float]:
    """Return tanh(arctanh r ± 1.96 √(factor / (n - lost))), for r of ±1 after `unit_clipped`.

    Args:
        r: a rank correlation.
        n: number of pairs.
        factor: first number of `SPEARMAN` or `KENDALL`.
        lost: its second number; there is no interval for n ≤ lost.
    """
    if n <= lost:
        return math.nan, math.nan
    z = float(np.arctanh(unit_clipped(r, n)))
    half = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * math.sqrt(factor / (n - lost))
    return math.tanh(z - half), math.tanh(z + half)


def unit_clipped(rho: ArrayLike, n: ArrayLike) -> NDArray[np.float64]:
    """Return rank correlations no closer to ±1 than 6 / (n³ - n), so that Fisher's z is finite.

    This is half the least step of Spearman's ρ: exchanging two neighbours gives 1 - 6 · 2 / (n³ - n).
    """
    count = np.asarray(n, dtype=float)
    bound = 1 - 6 / (count**3 - count)
    return np.clip(np.asarray(rho, dtype=float), -bound, bound)


def standardized_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the midranks of each row, centred and of unit length, so that ρ of two rows is their inner product.

    Missing values become 0, and a constant row is 0 throughout.
    """
    missing = np.isnan(values)
    ranks = stats.rankdata(values, axis=-1, nan_policy="omit")
    # A row without values has no mean; its ranks become 0.
    count = np.maximum((~missing).sum(axis=-1, keepdims=True), 1)
    centred = np.where(missing, 0.0, ranks - np.nansum(ranks, axis=-1, keepdims=True) / count)
    length = np.sqrt(np.sum(centred**2, axis=-1, keepdims=True))
    return np.divide(centred, length, out=np.zeros_like(centred), where=length > 1e-9)
