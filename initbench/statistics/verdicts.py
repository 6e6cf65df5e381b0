"""Who beats whom: every pair of treatments on every workload, as the comparison of a report decides it."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from initbench.statistics.cells import complete, table
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import by_seed, compare_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

_SMALLEST = 2  # workloads, below which there is nothing to compare over


class Verdict(NamedTuple):
    """What is told of two treatments.

    Attributes:
        workload: label; empty where it is over all workloads.
        first: label.
        second: label.
        side: -1 where the first is told to be better, 1 where the second is, 0 where neither is told.
        difference: first - second of oriented outcomes, with the interval that decides; none where a trial diverged.
        is_of_training: whether one of the two trains and the other does not, which decides before any difference.
    """

    workload: str
    first: str
    second: str
    side: int
    difference: Estimate
    is_of_training: bool = False


def workload_verdicts(cells: pd.DataFrame, trials: pd.DataFrame) -> Iterator[Verdict]:
    """Yield the verdict on each pair of treatments on each workload.

    Where both train, it is that of `workload_order.workload_order`: whether the interval of the mean of the paired
    differences, simultaneous over all pairs of treatments on that workload, excludes 0. Where one of them trains and
    the other does not, or diverges, that is the verdict.

    Args:
        cells: as from `cells.cells`.
        trials: as from `trials.comparable_trials`, of these cells.
    """
    judged = cells[cells["outcome"].notna()]
    on = {str(name): own for name, own in trials.groupby("workload", sort=False)}
    for workload, own in judged.groupby("workload", sort=False):
        states = {str(name): state for name, state in zip(own["treatment"], own["state"], strict=True)}
        wide, pairs = by_seed(on[str(workload)], states), max(1, len(states) * (len(states) - 1) // 2)
        for first, second in combinations(states, 2):
            found = compare_columns(wide, first, second, comparisons=pairs).on(str(workload))
            train = [states[name] == "trained" for name in (first, second)]
            side = found.side() if all(train) else train[1] - train[0]
            yield Verdict(str(workload), first, second, side, found, is_of_training=train[0] != train[1])


def verdicts_over_workloads(cells: pd.DataFrame, trials: pd.DataFrame) -> Iterator[Verdict]:
    """Yield the verdict on each pair of treatments over the workloads on which all ran (`PairedComparison.side`).

    Args:
        cells: as from `cells.cells`.
        trials: as from `trials.comparable_trials`, of these cells; all of one metric.
    """
    whole = complete(table(cells, "ranked")).table
    if len(whole) < _SMALLEST:
        return
    names = [str(name) for name in whole.columns]
    wide = by_seed(trials[trials["workload"].isin(whole.index)], names)
    for first, second in combinations(names, 2):
        found = compare_columns(wide, first, second, comparisons=len(names) * (len(names) - 1) // 2)
        difference = found.judged if found.has_mean else Estimate(math.nan, math.nan, math.nan, found.workloads)
        yield Verdict("", first, second, found.side, difference)
