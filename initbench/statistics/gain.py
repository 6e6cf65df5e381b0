"""What a probe adds to predictors that cost nothing, on unseen architectures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from initbench.statistics.association import aligned
from initbench.statistics.decisions import is_rejected
from initbench.statistics.intervals import Estimate, mean_estimate
from initbench.statistics.permutation import TESTABLE, Parts, label_permutations, share_as_extreme, units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


PERMUTATIONS = 999
MINIMUM_ARCHITECTURES = 3


class Gain(NamedTuple):
    """The improvement of a prediction by a probe over trivial predictors, leaving out one architecture at a time.

    Attributes:
        without: mean absolute error of the predicted rank (0 best, 1 worst of all cells) by the trivial predictors.
        gain: without, minus the same with the probe added: mean over architectures with Student's interval over them,
            which n counts; below 0 if the probe makes it worse.
        pvalue: one-sided, from joint permutations; NaN if nothing could be rejected.
        predictors: the trivial predictors used: those that vary and are known wherever probe and outcome are.
    """

    without: float
    gain: Estimate
    pvalue: float
    predictors: list[str]

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.without)

    @property
    def is_testable(self) -> bool:
        return not math.isnan(self.pvalue)

    @property
    def has_too_few_architectures(self) -> bool:
        """Whether there is no gain because there are too few architectures to leave one out."""
        return self.gain.n < MINIMUM_ARCHITECTURES

    def adds(self, pvalue: float | None = None) -> bool:
        """Return whether the probe adds anything: the test rejects, and the interval agrees."""
        p = self.pvalue if pvalue is None else pvalue
        return is_rejected(p, self.gain) and self.gain.value > 0


def gain(
    probe: pd.DataFrame,
    outcome: pd.DataFrame,
    trivial: Mapping[str, pd.DataFrame],
    *,
    architectures: Mapping[str, str] | None = None,
    parts: Parts | None = None,
    permutations: int = PERMUTATIONS,
) -> Gain:
    """Return how much a probe improves the prediction of outcomes on an architecture that was left out.

    Everything is ranked over all cells and scaled to 0 … 1, so that +∞ needs no special case: y the outcome, Z the
    trivial predictors and a constant, x the probe. For each architecture a least-squares fit of y on Z, and one on Z
    and x, to the cells of the *other* architectures predict its cells; both predictions are clipped to 0 … 1. The gain
    is the difference of their mean absolute errors.

    For its p-value, x is replaced by its residuals after regression on Z over all cells. The treatments' labels of
    these residuals are permuted jointly over workloads (the method that Winkler et al., NeuroImage 92 (2014) 381-397,
    name after Smith), and the whole validation is repeated each time. So the part of the probe that the trivial
    predictors explain is in no permutation and cannot contribute to the gain.

    Args:
        probe: workloads × treatments, NaN if missing, +∞ if too large to store.
        outcome: likewise, +∞ for a diverged cell.
        trivial: likewise, by name: parameter count, depth, loss at initialization, ...
        architectures: workload → the group that is left out together; by default each workload separately.
        parts: as for `permutation.permutation_test`.
        permutations: the maximum number tried: all if there are no more, otherwise this many random ones.
    """
    x, y = aligned(probe, outcome)
    known: NDArray[np.bool_] = ~np.isnan(x)
    every = {name: aligned(values, outcome)[0] for name, values in trivial.items()}
    every = {name: values for name, values in every.items() if not np.isnan(values[known]).any()}
    predictors = [name for name, values in every.items() if len(np.unique(values[known])) > 1]
    folds = pd.factorize(
        np.array([(architectures or {}).get(workload, workload) for workload in outcome.index], dtype=object)
    )[0]
    fold, cells = folds[np.nonzero(known)[0]], int(known.sum())
    each = np.unique(fold, return_counts=True)[1]
    left_out, least = len(each), cells - int(each.max(initial=0))
    coefficients = len(predictors) + 2
    if left_out < MINIMUM_ARCHITECTURES or least < 2 * coefficients:
        return Gain(math.nan, Estimate(math.nan, math.nan, math.nan, left_out), math.nan, predictors)
    z = np.column_stack([np.ones(cells), *(_unit_ranks(every[name][known]) for name in predictors)])
    target = _unit_ranks(y[known])
    residual = np.full(known.shape, np.nan)
    ranked = _unit_ranks(x[known])
    residual[known] = ranked - z @ (np.linalg.pinv(z) @ ranked)
    without, with_probe = _validated(z, residual[known][None, :], target, fold)
    estimate = mean_estimate(without - with_probe[0])
    labels, number = label_permutations(known, units(outcome.columns, parts), draws=permutations)
    result = Gain(float(without.mean()), estimate, math.nan, predictors)
    if number < TESTABLE:
        return result
    permuted = residual[:, labels].transpose(1, 0, 2)[:, known]
    _, errors = _validated(z, permuted, target, fold)
    gains = (without - errors).mean(axis=1)
    return result._replace(pvalue=share_as_extreme(gains, estimate.value, exhaustive=number <= permutations))


def _unit_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (stats.rankdata(values) - 1) / max(len(values) - 1, 1)


def _validated(
    z: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64], fold: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean absolute errors of each left-out fold, (folds,) without x and (number, folds) with.

    A fit on Z and x is the fit on Z, plus b times the residual of x after regression on Z (Frisch, Waugh and Lovell),
    so one pseudo-inverse per fold serves all candidates.
    """
    without, with_x = [], []
    for left_out in np.unique(fold):
        test = fold == left_out
        train = ~test
        inverse = np.linalg.pinv(z[train])
        fitted = z @ (inverse @ y[train])
        left = x - x[:, train] @ inverse.T @ z.T
        scale = np.sum(left[:, train] ** 2, axis=1)
        slope = left[:, train] @ (y - fitted)[train] / np.where(scale > 1e-12, scale, np.inf)
        added = fitted[test] + slope[:, None] * left[:, test]
        without.append(np.abs(np.clip(fitted[test], 0, 1) - y[test]).mean())
        with_x.append(np.abs(np.clip(added, 0, 1) - y[test]).mean(axis=1))
    return np.array(without), np.stack(with_x, axis=1)
