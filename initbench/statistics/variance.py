"""Shares of the variation of the outcomes due to the treatment, the workload, their interaction, and the seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from initbench.statistics.cells import complete, table, trial_outcomes

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


SMALLEST = 2  # workloads, treatments and seeds


class VarianceSplit(NamedTuple):
    """Shares of the variance; they sum to 1, or are NaN if there is no split.

    Attributes:
        treatment: good or bad on all workloads alike.
        workload: easy or hard for all treatments alike.
        interaction: which treatment is good depends on the workload.
        seed: replicates of one cell.
        of_ranks: whether it splits the trials' ranks among all, as if one diverged, and not the outcome.
        shape: numbers of workloads, treatments and seeds that were used.
    """

    treatment: float
    workload: float
    interaction: float
    seed: float
    of_ranks: bool
    shape: tuple[int, int, int]

    @property
    def is_known(self) -> bool:
        return not math.isnan(self.treatment)

    @property
    def is_too_small(self) -> bool:
        """Whether there is no split because there are fewer than 2 workloads, treatments or seeds."""
        return min(self.shape) < SMALLEST

    @property
    def largest(self) -> tuple[str, float]:
        """The largest share, with its attribute's name: ``interaction``; the first of equal ones."""
        shares = {name: float(getattr(self, name)) for name in ("treatment", "workload", "interaction", "seed")}
        name = max(shares, key=shares.__getitem__)
        return name, shares[name]


def split_variance(trials: pd.DataFrame) -> VarianceSplit:
    """Return the split over the workloads, treatments and seeds for which every combination has a result.

    If a trial diverged its error has no variance; then every trial's rank among all is split instead.
    """
    results = trial_outcomes(trials)
    counts = results.groupby(["workload", "treatment"], sort=False).size().rename("n").reset_index()
    cells = complete(table(counts, "n")).table
    inside = results[results["workload"].isin(cells.index) & results["treatment"].isin(cells.columns)]
    wide = inside.pivot(index=["workload", "treatment"], columns="seed", values="outcome")  # noqa: PD010  # it refuses duplicates
    wide = wide.dropna(axis="columns")
    shape = (cells.shape[0], cells.shape[1], wide.shape[1])
    if min(shape) < SMALLEST:
        return VarianceSplit(math.nan, math.nan, math.nan, math.nan, False, shape)
    keys = [(workload, treatment) for workload in cells.index for treatment in cells.columns]
    outcomes = wide.reindex(keys).to_numpy(dtype=float).reshape(shape)
    diverged = bool(np.isinf(outcomes).any())
    values = stats.rankdata(outcomes).reshape(shape) if diverged else outcomes
    parts = variance_components(values)
    total = parts.sum()
    if np.ptp(values) == 0:  # rounding may leave a variance of equal values
        return VarianceSplit(math.nan, math.nan, math.nan, math.nan, False, shape)
    treatment, workload, interaction, seed = (parts / total).tolist()
    return VarianceSplit(treatment, workload, interaction, seed, diverged, shape)


def variance_components(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the variances of treatment, workload, their interaction, and seed, in the squared unit of the values.

    The method of moments for the balanced two-way layout, all effects random: with A workloads, I treatments, S seeds
    and the mean squares of the analysis of variance, σ²ₛ = MSₛ, σ²ₐᵢ = (MSₐᵢ - MSₛ) / S, σ²ᵢ = (MSᵢ - MSₐᵢ) / (A S),
    σ²ₐ = (MSₐ - MSₐᵢ) / (I S), each 0 if it would be negative (Searle, Casella and McCulloch, Variance Components
    (1992), section 4.3).

    It takes seeds as replicates of one cell. Noise that all treatments of a workload share at a seed, from the order of
    the data, cancels in MSₐᵢ and MSᵢ: if its variance is σ²꜀, the interaction is too low by σ²꜀ / S, and the workload
    too high by as much.

    Args:
        values: shape (workloads, treatments, seeds), finite, each at least 2.
    """
    A, I, S = values.shape  # noqa: E741  # the letters of the formula
    cell, mean = values.mean(axis=2), values.mean()
    rows, columns = cell.mean(axis=1), cell.mean(axis=0)
    ms_workload = I * S * np.sum((rows - mean) ** 2) / (A - 1)
    ms_treatment = A * S * np.sum((columns - mean) ** 2) / (I - 1)
    ms_interaction = S * np.sum((cell - rows[:, None] - columns + mean) ** 2) / ((A - 1) * (I - 1))
    ms_seed = np.sum((values - cell[:, :, None]) ** 2) / (A * I * (S - 1))
    moments = [
        (ms_treatment - ms_interaction) / (A * S),
        (ms_workload - ms_interaction) / (I * S),
        (ms_interaction - ms_seed) / S,
        ms_seed,
    ]
    return np.maximum(moments, 0.0)
