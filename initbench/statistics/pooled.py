"""One rank correlation from the correlations of several workloads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from initbench.statistics.association import SPEARMAN, aligned, fisher_interval, unit_clipped
from initbench.statistics.intervals import CONFIDENCE, Estimate, all_equal, jackknife
from initbench.statistics.permutation import Parts, scores, telling, units

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray


class Pooled(NamedTuple):
    """A correlation pooled over workloads by random effects.

    Attributes:
        rho: the pooled ρ with the Hartung-Knapp interval; its n counts workloads. The interval is for further workloads
            with *these* treatments: it ignores that workloads share them.
        i_squared: share of the variation of z between workloads that is not sampling, max(0, (Q - (A - 1)) / Q),
            where Q is Cochran's, Σ wₐ (zₐ - z̄)² with the fixed-effect weights.
        tau_squared: variance of the true z between workloads.
    """

    rho: Estimate
    i_squared: float
    tau_squared: float


def pool(rho: ArrayLike, n: ArrayLike) -> Pooled:
    """Return Spearman's ρ pooled over workloads by random effects on Fisher's z, with the Hartung-Knapp interval.

    zₐ = arctanh ρₐ (after `unit_clipped`), vₐ = 1.06 / (nₐ - 3), τ² by Paule and Mandel, wₐ = 1 / (vₐ + τ²), z̄ = Σ wₐ
    zₐ / Σ wₐ, and z̄ ± t₀.₉₇₅,A₋₁ √(Σ wₐ (zₐ - z̄)² / ((A - 1) Σ wₐ)) (Hartung and Knapp, Stat. Med. 20 (2001)
    3875-3889), all by statsmodels' `combine_effects`. No interval below 3 workloads, or if all zₐ are equal.

    Args:
        rho: shape (workloads,), NaN if there is none.
        n: number of treatments for each, at least 4.
    """
    r, count = np.asarray(rho, dtype=float), np.asarray(n, dtype=float)
    r, count = r[~np.isnan(r)], count[~np.isnan(r)]
    if len(r) == 0:
        return Pooled(Estimate(math.nan, math.nan, math.nan, 0), math.nan, math.nan)
    if len(r) == 1:
        return Pooled(Estimate(float(r[0]), math.nan, math.nan, 1), math.nan, math.nan)
    from statsmodels.stats.meta_analysis import combine_effects

    z, variance = np.arctanh(unit_clipped(r, count)), SPEARMAN[0] / (count - SPEARMAN[1])
    with np.errstate(divide="ignore", invalid="ignore"):  # it divides by Q, which is 0 for equal correlations
        result = combine_effects(z, variance, method_re="iterated", use_t=True)
    # Equal correlations would have an interval of no width.
    known = len(r) >= 3 and not all_equal(z)
    low, high = result.conf_int(alpha=1 - CONFIDENCE)[3] if known else (math.nan, math.nan)
    q = float(result.q)
    i_squared = max(0.0, (q - (len(r) - 1)) / q) if q > 0 else 0.0
    estimate = Estimate(math.tanh(result.mean_effect_re), math.tanh(low), math.tanh(high), len(r))
    return Pooled(estimate, i_squared, float(max(result.tau2, 0.0)))


def crossed(probe: pd.DataFrame, outcome: pd.DataFrame, parts: Parts | None = None) -> Estimate:
    """Return the mean ρ̄ over workloads of Spearman's ρ, with an interval over the treatments; its n counts them.

    ρ̄ is the statistic of `permutation.permutation_test`, jackknifed over treatments on Fisher's scale, so the interval
    takes the treatments, which all workloads share, as a sample. There is no jackknife with 4 treatments, if leaving
    out a treatment never changes ρ̄, or if ρ̄ does not exist without one of them; then it is
    `association.fisher_interval` for the largest number of treatments on a workload, as if the other workloads added
    nothing.

    Args:
        probe: workloads × treatments, NaN if missing.
        outcome: likewise, +∞ for a diverged cell.
        parts: as for `permutation.permutation_test`: the interval is then over these.
    """
    x, y, used = telling(*aligned(probe, outcome))
    width = x.shape[1]
    unit, _ = units(outcome.columns[used], parts)

    def fisher(columns: NDArray[np.intp]) -> float:
        ranks_x, ranks_y, weights = scores(x[:, columns], y[:, columns])
        if not weights.any():
            return math.nan
        mean = float(np.einsum("ai,ai,a->", ranks_x, ranks_y, weights))
        return float(np.arctanh(unit_clipped(mean, len(columns))))

    z = jackknife(fisher, width, unit)
    rho = math.tanh(z.value)
    most = max((len(np.unique(unit[~np.isnan(row)])) for row in x), default=0)
    low, high = (math.tanh(z.low), math.tanh(z.high)) if z.has_interval else fisher_interval(rho, most, *SPEARMAN)
    return Estimate(rho, low, high, width)
