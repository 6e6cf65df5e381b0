"""Who trained on one workload and in which order, and who beats whom: every pair of treatments on every workload."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from initbench.statistics.cells import complete, table
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import by_seed, compare_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_SMALLEST = 2  # least number of workloads to compare over


class WorkloadOrder(NamedTuple):
    """The treatments of one workload.

    Attributes:
        outcomes: by treatment, the oriented medians over seeds of the trained ones, the best first.
        untrained: likewise, for the untrained ones.
        diverged: by treatment, the number of seeds at which it diverged and the number of its seeds; without treatments
            that never did.
        saturated: treatments whose gradient quotient is saturated.
        differences: the best minus each other trained treatment, over seeds (`paired.paired_estimate`).
        comparisons: number of pairs for which their intervals hold at once: the best treatment was found in the same
            trials, so any pair might have been chosen.
        compared: treatments with an outcome, including diverged ones.
        seeds: trials that finished or diverged, including those without training.
    """

    outcomes: pd.Series[float]
    untrained: pd.Series[float]
    diverged: dict[str, tuple[int, int]]
    saturated: list[str]
    differences: dict[str, Estimate]
    comparisons: int
    compared: int
    seeds: int

    @property
    def best(self) -> str:
        """The treatment with the best median among the trained ones; the first by name if several share it."""
        return str(self.outcomes.index[0])

    @property
    def behind(self) -> list[str]:
        """The trained treatments that are significantly worse than the best, the nearest first."""
        return [name for name, difference in self.differences.items() if difference.side() < 0]

    @property
    def leading(self) -> list[str]:
        """The best, and the treatments that are not significantly worse."""
        return [self.best, *(name for name in self.differences if name not in self.behind)]


def workload_order(cells: pd.DataFrame, trials: pd.DataFrame, saturated: Collection[str] = ()) -> WorkloadOrder:
    ordered = cells.sort_values("ranked", kind="stable").set_index("treatment")
    outcomes = ordered.loc[ordered["state"] == "trained", "outcome"]
    untrained = ordered.loc[ordered["state"] == "untrained", "outcome"]
    compared = int(ordered["outcome"].notna().sum())
    pairs = max(1, compared * (compared - 1) // 2)
    workload = str(cells["workload"].iloc[0]) if len(cells) else ""
    names = [str(name) for name in outcomes.index]
    wide = by_seed(trials, names)
    return WorkloadOrder(
        outcomes,
        untrained,
        {str(name): (int(row.diverged), int(row.seeds)) for name, row in ordered.iterrows() if row.diverged > 0},
        [str(name) for name in ordered.index if name in saturated],
        {name: compare_columns(wide, names[0], name, comparisons=pairs).on(workload) for name in names[1:]},
        pairs,
        compared,
        int(ordered["seeds"].sum()),
    )


class Verdict(NamedTuple):
    """The result of comparing two treatments.

    Attributes:
        workload: label; empty if over all workloads.
        first: label.
        second: label.
        side: -1 if the first is significantly better, 1 if the second is, 0 if neither.
        difference: first - second of oriented outcomes, with the interval that decides; missing if a trial diverged.
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

    If both train, it is the verdict of `workload_order`: whether the interval of the mean of the paired differences,
    simultaneous over all pairs of treatments on that workload, excludes 0. If one of them trains and the other does
    not, or diverges, that is the verdict.
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
    """Yield the verdict on each pair of treatments over the workloads on which all ran (`PairedComparison.side`)."""
    whole = complete(table(cells, "ranked")).table
    if len(whole) < _SMALLEST:
        return
    names = [str(name) for name in whole.columns]
    wide = by_seed(trials[trials["workload"].isin(whole.index)], names)
    for first, second in combinations(names, 2):
        found = compare_columns(wide, first, second, comparisons=len(names) * (len(names) - 1) // 2)
        difference = found.judged if found.has_mean else Estimate(math.nan, math.nan, math.nan, found.workloads)
        yield Verdict("", first, second, found.side, difference)


def verdicts_side_by_side(verdicts: Mapping[str, Iterable[Verdict]]) -> pd.DataFrame:
    """Return one row per pair of treatments on a workload, with the verdict under each protocol.

    Args:
        verdicts: by protocol.

    Returns:
        ``workload``, ``all`` if over all workloads; ``first``, ``second``; and for each protocol ``<protocol>_better``:
            the label of the significantly better one, empty if neither is; ``_difference, _low, _high``:
            first - second; ``_of_training``. Missing if a protocol has no verdict on the pair.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    names = ["workload", "first", "second"]
    for protocol, own in verdicts.items():
        ends = ("better", "difference", "low", "high", "of_training")
        columns = [f"{protocol}_{end}" for end in ends]
        names += columns
        for one in own:
            row = rows.setdefault(
                one[:3], {"workload": one.workload or "all", "first": one.first, "second": one.second}
            )
            better = {-1: one.first, 1: one.second, 0: ""}[one.side]
            row |= dict(zip(columns, (better, *one.difference[:3], one.is_of_training), strict=True))
    return pd.DataFrame(list(rows.values()), columns=names)
