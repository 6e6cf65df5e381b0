"""The cost of choosing a treatment by a probe."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.statistics.association import aligned
from initbench.statistics.intervals import Estimate, mean_estimate, share_estimate
from initbench.statistics.permutation import scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


class Selection(NamedTuple):
    """The result of choosing k treatments by a probe.

    Attributes:
        by_workload: one row per workload with more than k treatments: ``workload``, ``regret``, ``regret_at_random``,
            ``precision``, ``precision_at_random`` (k / n), ``n`` (treatments), ``lower_is_better`` (the direction used
            there).
        regret: mean over workloads, in fractions of error, with Student's interval over them; +∞ if on some workload
            every choice may have diverged.
        regret_at_random: regret of choosing k at random.
        precision: mean over workloads (`intervals.share_estimate`).
        learned: whether the direction was learned on the other workloads.
    """

    by_workload: pd.DataFrame
    regret: Estimate
    regret_at_random: Estimate
    precision: Estimate
    learned: bool = False

    @property
    def diverged(self) -> int:
        """Number of workloads on which every choice may have diverged."""
        return int((self.by_workload["regret"] == math.inf).sum())


def selection(
    probe: pd.DataFrame,
    outcome: pd.DataFrame,
    k: int = 1,
    lower_is_better: bool | None = True,
    architectures: Mapping[str, str] | None = None,
) -> Selection:
    """Return precision@k and regret@k of taking the k treatments with the best values of a probe.

    With K the chosen set and o the outcomes of a workload, regret@k = min over K of o - min over all of o: the loss if
    only the k chosen are trained and the best of them is kept; precision@k = |K ∩ B| / k with B the k best outcomes.
    Ties in the probe or the outcome are averaged over all ways to break them. A workload on which every treatment
    diverged is left out, because there is no choice to make.

    Args:
        probe: workloads × treatments, NaN if missing.
        outcome: likewise, oriented outcomes, +∞ for a diverged cell.
        k: number of treatments to choose.
        lower_is_better: whether to choose low values of the probe, as for GQ. It must be stated beforehand: derived
            from the same outcomes it would flatter the probe. None if unknown: for each workload it is the sign of Σ (n
            - 1) ρ over workloads with *other* architectures, n treatments and Spearman's ρ of each, as in
            `permutation.permutation_test`. A workload is left out if that is 0, or if no other has 3 treatments. The
            result is for a further workload and the *same* treatments: their peculiarities are known from the other
            workloads, so that even a meaningless probe beats a random choice if workloads agree on the treatments
            (docs/statistics.md).
        architectures: workload → the group whose workloads do not determine its direction, as for `gain.gain`.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    values, errors = aligned(probe, outcome)
    if lower_is_better is None:
        names = [(architectures or {}).get(workload, workload) for workload in outcome.index]
        directions = _learned_directions(values, errors, pd.factorize(np.array(names, dtype=object))[0])
    else:
        directions = np.full(len(values), 1.0 if lower_is_better else -1.0)
    rows = []
    for workload, x, y, direction in zip(outcome.index, directions[:, None] * values, errors, directions, strict=True):
        known = ~np.isnan(x)
        n = int(known.sum())
        if n <= k or not np.isfinite(y[known]).any() or direction == 0:
            continue
        chosen = list(_best_sets(x[known], k))
        best = list(_best_sets(y[known], k))
        everything = itertools.combinations(range(n), k)
        rows.append(
            {
                "workload": workload,
                "regret": _mean_regret(y[known], chosen),
                "regret_at_random": _mean_regret(y[known], everything),
                "precision": float(np.mean([len(set(a) & set(b)) / k for a in chosen for b in best])),
                "precision_at_random": k / n,
                "n": n,
                "lower_is_better": bool(direction > 0),
            }
        )
    columns = ["workload", "regret", "regret_at_random", "precision", "precision_at_random", "n", "lower_is_better"]
    by_workload = pd.DataFrame(rows, columns=columns)
    return Selection(
        by_workload,
        _over_workloads(by_workload["regret"]),
        _over_workloads(by_workload["regret_at_random"]),
        share_estimate(by_workload["precision"].to_numpy(dtype=float)),
        lower_is_better is None,
    )


def _learned_directions(
    x: NDArray[np.float64], y: NDArray[np.float64], architecture: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return for each workload 1 if low values go with low errors on the others, -1 if high values do, otherwise 0."""
    ranks_x, ranks_y, weights = scores(x, y)
    each = weights * np.einsum("ai,ai->a", ranks_x, ranks_y)
    others = each.sum() - np.bincount(architecture, weights=each)[architecture]
    # A sum of 0 may differ from it by rounding.
    return np.where(np.abs(others) < 1e-9, 0.0, np.sign(others))


def _over_workloads(regrets: pd.Series[float]) -> Estimate:
    values = regrets.to_numpy(dtype=float)
    if np.isinf(values).any():
        return Estimate(math.inf, math.nan, math.nan, len(values))
    return mean_estimate(values).clipped(0, math.inf)


def _best_sets(values: NDArray[np.float64], k: int) -> Iterable[tuple[int, ...]]:
    """Return all sets of k indices that contain the k least values, several if the k-th is tied."""
    limit = np.sort(values)[k - 1]
    sure = tuple(np.flatnonzero(values < limit).tolist())
    tied = np.flatnonzero(values == limit).tolist()
    return (sure + rest for rest in itertools.combinations(tied, k - len(sure)))


def _mean_regret(errors: NDArray[np.float64], sets: Iterable[tuple[int, ...]]) -> float:
    return float(np.mean([errors[list(chosen)].min() for chosen in sets]) - errors.min())
