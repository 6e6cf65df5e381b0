"""Test whether a probe and the outcome are related: treatments' labels are permuted jointly over all workloads.

Anything peculiar to a treatment shows on every workload, in its outcome and in its probe. Permuting within each
workload separately destroys this, takes one coincidence for many, and rejects up to half of all true nulls. Permuting
whole columns of the table preserves it.

Treatments made of several factors are not independent observations. Kaiming with and without a norm share the
peculiarities of Kaiming, and all treatments without a norm share the effect of its absence. One part of the treatments,
such as the initializer, is therefore exchanged with all its treatments at once, while the other factors stay fixed. The
jackknife also leaves out this part as a whole.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from initbench.statistics.association import aligned, standardized_ranks
from initbench.statistics.decisions import is_rejected
from initbench.statistics.power import correlation_treatments

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    from numpy.typing import NDArray

    from initbench.statistics.intervals import Estimate

Parts = Mapping[str, tuple[str, str]]
"""Treatment → the part that is exchanged, and the rest, such as initializer and norm."""
PERMUTATIONS = 9999
TESTABLE = 40  # with fewer even the extreme order and its mirror image, 2 of them, are more than 5 %


class PermutationTest(NamedTuple):
    """A joint permutation test.

    Attributes:
        statistic: the observed statistic.
        pvalue: share of permutations at least as extreme, NaN if nothing could be rejected.
        treatments: number of treatments that can be exchanged.
        workloads: number of workloads in the test.
    """

    statistic: float
    pvalue: float
    treatments: int
    workloads: int

    @property
    def is_testable(self) -> bool:
        """Whether there is a test; below 5 treatments there is none, and the statistic is meaningless."""
        return not math.isnan(self.pvalue)

    def tells(self, interval: Estimate, pvalue: float | None = None) -> bool:
        """Return whether probe and outcome are related: the test rejects and the interval agrees."""
        return is_rejected(self.pvalue if pvalue is None else pvalue, interval)

    def needed(self, comparisons: int = 1) -> int | None:
        """Return how many treatments find a statistic of the observed size (`power.correlation_treatments`)."""
        return correlation_treatments(self.statistic, comparisons, self.treatments)


def units(treatments: Iterable[str], parts: Parts | None) -> tuple[NDArray[np.intp], list[str]]:
    """Return for each treatment the index of the part that is exchanged, (treatments,), and the rest."""
    names = [str(name) for name in treatments]
    if parts is None:
        return np.arange(len(names)), [""] * len(names)
    first = {part: i for i, part in enumerate(dict.fromkeys(parts[name][0] for name in names))}
    return np.array([first[parts[name][0]] for name in names], dtype=np.intp), [parts[name][1] for name in names]


def permutation_test(probe: pd.DataFrame, outcome: pd.DataFrame, *, parts: Parts | None = None) -> PermutationTest:
    """Return the joint permutation test of ρ̄, the mean over workloads of Spearman's ρ over treatments.

    ρ̄ = Σₐ (nₐ - 1) ρₐ / Σₐ (nₐ - 1), where nₐ treatments of workload a have both values; 1 / (n - 1) is the variance
    of ρ under the null. The p-value is two-sided, the share of permutations π of the treatments' labels with |ρ̄(π)| ≥
    |ρ̄|: among all permutations up to 7 treatments, otherwise among 9,999 and the observed one (Phipson and Smyth,
    Stat. Appl. Genet. Mol. Biol. 9 (2010) 39). Treatments are exchanged only if they have values on the same workloads.
    With 4 treatments there are 24 permutations, and the perfect order and its mirror image make up 8 %; so at least 5
    are needed to reject anything.

    Args:
        probe: workloads × treatments, NaN if missing, +∞ if too large to store.
        outcome: likewise, +∞ for a diverged cell.
        parts: the part of each treatment that is exchanged, if treatments have several factors.
    """
    x, y, used = telling(*aligned(probe, outcome))
    ranks_x, ranks_y, weights = scores(x, y)
    observed = float(np.einsum("ai,ai,a->", ranks_x, ranks_y, weights))
    permutations, number = label_permutations(~np.isnan(x), units(outcome.columns[used], parts))
    workloads = int((weights > 0).sum())
    exchanged = int((permutations != np.arange(x.shape[1])).any(axis=0).sum()) if x.size else 0
    if workloads == 0:
        return PermutationTest(math.nan, math.nan, exchanged, 0)
    if number < TESTABLE:
        return PermutationTest(observed, math.nan, exchanged, workloads)
    products = np.einsum("ai,aj,a->ij", ranks_x, ranks_y, weights)
    permuted = permuted_statistics(products, permutations)
    pvalue = share_as_extreme(np.abs(permuted), abs(observed), exhaustive=number <= PERMUTATIONS)
    return PermutationTest(observed, pvalue, exchanged, workloads)


def scores(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the standardized ranks of both, shape (..., workloads, treatments), and weights, (..., workloads).

    The weights are (n - 1) / Σ (n - 1), and 0 for a workload with fewer than 3 treatments or a constant side.
    """
    ranks_x, ranks_y = standardized_ranks(x), standardized_ranks(y)
    count = (~np.isnan(x)).sum(axis=-1)
    usable = (count >= 3) & ranks_x.any(axis=-1) & ranks_y.any(axis=-1)
    weights = np.where(usable, count - 1.0, 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return ranks_x, ranks_y, np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def telling(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return both without the workloads that have weight 0 in `scores`, and which treatments the others have.

    Treatments that only such workloads have are left out, because nothing can be exchanged with them.
    """
    _, _, weights = scores(x, y)
    x, y = x[weights > 0], y[weights > 0]
    used = np.asarray(~np.isnan(x).all(axis=0))
    return x[:, used], y[:, used], used


def permuted_statistics(products: NDArray[np.float64], permutations: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return Σᵢ products[π(i), i] for each permutation π: a statistic that is a sum of x times y over cells.

    Args:
        products: shape (..., treatments, treatments): Σₐ wₐ x[a, j] y[a, i] at [j, i].
        permutations: shape (number, treatments).

    Returns:
        Shape (..., number).
    """
    return products[..., permutations, np.arange(permutations.shape[1])].sum(axis=-1)


def share_as_extreme(permuted: NDArray[np.float64], observed: float, *, exhaustive: bool) -> float:
    """Return the p-value: the share of permutations with at least the observed statistic.

    Random permutations do not include the observed one, so it is added; an exhaustive list includes it.
    """
    # Equal statistics may differ by rounding because they are summed in different orders.
    count = float(np.sum(permuted >= observed - 1e-9))
    number = int(permuted.shape[-1])
    return count / number if exhaustive else (count + 1) / (number + 1)


def label_permutations(
    present: NDArray[np.bool_],
    exchanged: tuple[NDArray[np.intp], list[str]] | None = None,
    *,
    draws: int = PERMUTATIONS,
) -> tuple[NDArray[np.intp], int]:
    """Return permutations of treatments, shape (number, treatments), and the number of different ones.

    Only treatments that are present on the same workloads are exchanged. If a part is exchanged, all its treatments are
    exchanged at once with another part's, which must be combined with the same other factors on the same workloads. All
    permutations are returned if there are at most `draws`, otherwise as many random ones.

    Args:
        present: shape (workloads, treatments).
        exchanged: as from `units`; by default each treatment separately.
        draws: maximum number of permutations.
    """
    width = present.shape[1]
    unit, rest = (np.arange(width), [""] * width) if exchanged is None else exchanged
    columns: list[dict[str, int]] = [{} for _ in range(int(unit.max(initial=-1)) + 1)]
    for i in range(width):
        if present[:, i].any():  # an absent treatment would only multiply the number of permutations
            columns[unit[i]][rest[i]] = i
    strata: dict[tuple[tuple[str, bytes], ...], list[int]] = {}
    for u, others in enumerate(columns):
        if others:
            pattern = tuple(sorted((other, present[:, i].tobytes()) for other, i in others.items()))
            strata.setdefault(pattern, []).append(u)
    total = math.prod(math.factorial(len(members)) for members in strata.values())
    workloads = list(strata.values())
    count = len(columns)
    if total <= draws:
        every = np.tile(np.arange(count), (total, 1))
        orders = itertools.product(*(itertools.permutations(members) for members in workloads))
        for row, order in zip(every, orders, strict=True):
            for members, permuted in zip(workloads, order, strict=True):
                row[members] = permuted
        return _of_treatments(every, columns, width), total
    generator = np.random.default_rng(0)
    drawn = np.tile(np.arange(count), (draws, 1))
    for members in workloads:
        drawn[:, members] = generator.permuted(np.tile(members, (draws, 1)), axis=1)
    return _of_treatments(drawn, columns, width), total


def _of_treatments(permutations: NDArray[np.intp], columns: list[dict[str, int]], width: int) -> NDArray[np.intp]:
    """Return permutations of treatments, (number, treatments), from permutations of their exchanged parts."""
    every = np.tile(np.arange(width), (len(permutations), 1))
    for u, others in enumerate(columns):
        for other, i in others.items():
            # Its exchange partners have the same other factors; without a partner it stays.
            target = np.array([column.get(other, i) for column in columns], dtype=np.intp)
            every[:, i] = target[permutations[:, u]]
    return every
