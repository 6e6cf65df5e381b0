"""Who is where on one workload: who trained, who is told apart from the best, who did not train, who diverged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from initbench.statistics.paired import by_seed, compare_columns

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

    from initbench.statistics.intervals import Estimate


class WorkloadOrder(NamedTuple):
    """The treatments of one workload.

    Attributes:
        outcomes: by treatment, the oriented medians over seeds of those that did train, the best first.
        untrained: likewise, of those that did not.
        diverged: by treatment, at how many seeds it diverged and how many it has; without those that never did.
        saturated: treatments whose gradient quotient is saturated.
        differences: of the best less each other that trained, over seeds (`paired.paired_estimate`).
        comparisons: for how many pairs their intervals hold at once: which treatment is best was seen in the same
            trials, so that any pair might have come up.
        compared: treatments with an outcome, also those that diverged.
        seeds: trials that finished or diverged, also those that were measured alone.
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
        """The treatment with the best median of those that trained; the first by name where they share it."""
        return str(self.outcomes.index[0])

    @property
    def behind(self) -> list[str]:
        """The treatments that trained and are told to be worse than the best, the nearest first."""
        return [name for name, difference in self.differences.items() if difference.side() < 0]

    @property
    def leading(self) -> list[str]:
        """The best, and those that are not told apart from it."""
        return [self.best, *(name for name in self.differences if name not in self.behind)]


def workload_order(cells: pd.DataFrame, trials: pd.DataFrame, saturated: Collection[str] = ()) -> WorkloadOrder:
    """Return who is where on one workload.

    Args:
        cells: its rows of `cells.cells`.
        trials: its rows of `trials.comparable_trials`.
        saturated: treatments whose gradient quotient is saturated there.
    """
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
