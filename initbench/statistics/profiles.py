"""Performance profiles: the share of workloads on which a treatment comes within a factor of the best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from initbench.statistics.intervals import Estimate, wilson_estimate


class Fastest(NamedTuple):
    """The treatment that is best on most workloads.

    Attributes:
        names: the treatments that are best equally often; empty if none ever is.
        wins: number of workloads on which each of them is best.
        share: share of the workloads, with Wilson's interval, simultaneous over the treatments because the winner was
            picked from the same workloads.
    """

    names: list[str]
    wins: int
    share: Estimate


def performance_ratios(costs: pd.DataFrame) -> pd.DataFrame:
    """Return each cost divided by the least of its workload: rₚₛ = tₚₛ / minₛ tₚₛ (Dolan and Moré, Math. Program. 91
    (2002) 201-213, equation in section 2).

    The best of a workload has the ratio 1, also where its cost is 0; then every positive cost has +∞. A miss, +∞ or
    NaN, has the ratio +∞, also where all miss.

    Args:
        costs: workloads × treatments, such as costs to a target in any unit, +∞ or NaN for a miss.
    """  # noqa: D205  # the reference does not fit on one line
    values = costs.to_numpy(dtype=float)
    if (values < 0).any():
        raise ValueError("costs must not be negative")
    values = np.where(np.isnan(values), np.inf, values)
    least = values.min(axis=1, keepdims=True, initial=np.inf)
    ratios = np.full_like(values, np.inf)
    np.divide(values, least, out=ratios, where=np.isfinite(values) & (least > 0))
    ratios[(values == least) & np.isfinite(values)] = 1.0
    return pd.DataFrame(ratios, index=costs.index, columns=costs.columns)


def fastest(costs: pd.DataFrame) -> Fastest:
    first = (performance_ratios(costs) == 1).sum()
    wins = int(first.max())
    names = [str(name) for name in first.index[first == wins]] if wins else []
    return Fastest(names, wins, wilson_estimate(wins, len(costs), comparisons=len(first)))


def performance_profiles(costs: pd.DataFrame) -> pd.DataFrame:
    """Return ρₛ(τ), the share of all workloads on which treatment s comes within a factor τ of the best.

    ρₛ(1) is the share on which it is the best; the limit for large τ is the share on which it does not miss.

    Args:
        costs: as for `performance_ratios`.

    Returns:
        Rows by τ, all values at which a profile rises, 1 first; columns by treatment; a profile is constant between two
        rows.
    """
    ratios = performance_ratios(costs)
    values = ratios.to_numpy()
    steps = np.unique(np.append(values[np.isfinite(values)], 1.0))
    shares = (values[None, :, :] <= steps[:, None, None]).mean(axis=1)
    return pd.DataFrame(shares, index=pd.Index(steps, name="tau"), columns=costs.columns)
