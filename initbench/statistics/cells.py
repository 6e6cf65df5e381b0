"""From trials to cells, the unit of analysis, and from cells to tables of workloads × treatments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.chance import JUDGED, is_trained
from initbench.comparing.formatting import natural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from initbench.metric import Metric

_COUNTS = ["workload", "treatment", "metric", "seeds", "diverged", "failed"]
_JUDGED = ["outcome", "trained", "chance", "chance_standard_error", "best"]
_COLUMNS = [*_COUNTS, *_JUDGED[:3], "state", "ranked"]


def trial_outcomes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a result, with their oriented outcome as `outcome`: lower is better, +∞ diverged.

    Failed trials are left out, of whose outcome nothing is known, and those that were not trained.
    """
    results = trials[trials["oriented"].notna()]
    return results.assign(outcome=results["oriented"].astype(float))


class Spread(NamedTuple):
    """What a report shows of the values of several seeds, all turned so that lower is better, or none.

    Attributes:
        median: of the values; +∞ where half of them or more have diverged.
        smallest: of them.
        largest: of them; +∞ where one has diverged.
    """

    median: float
    smallest: float
    largest: float

    def in_direction(self, metric: Metric) -> Spread:
        """Return the spread of a metric's values, of one of oriented values."""
        ends = sorted([metric.oriented(self.smallest), metric.oriented(self.largest)])
        return Spread(metric.oriented(self.median), *ends)


def spread(values: ArrayLike) -> Spread:
    """Return the median, the smallest and the largest of values; NaN where there are none."""
    x = np.asarray(values, dtype=float)
    return (
        Spread(float(np.median(x)), float(x.min()), float(x.max())) if len(x) else Spread(math.nan, math.nan, math.nan)
    )


def cells(trials: pd.DataFrame, measured: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per workload and treatment: the one place where seeds become a cell.

    - ``workload``, ``treatment``; ``metric``: the outcome's name, missing where all trials have failed;
    - ``seeds``: trials that finished or diverged; ``diverged``, ``failed``: counts;
    - ``outcome``: the median oriented outcome over seeds, lower is better, a diverged one counting as +∞; missing
      where no trial has a result;
    - ``trained``: how many seeds are better than chance, missing where chance is not known;
    - ``chance``: the oriented chance level, missing where it is not known;
    - ``state``: ``trained``, ``untrained`` where the median is not better than chance (`trained.is_trained`),
      ``diverged`` where it is +∞, ``failed`` where every trial has, ``measured`` where nothing was trained. A cell
      whose chance level is not known counts as trained;
    - ``ranked``: what ranks are made of: the outcome, but equal for all untrained cells, worse than any trained one and
      better than a diverged one;
    - for each column of `measured` its median over seeds, missing where a seed has none, and ``<column>.saturated``, in
      how many seeds it is saturated. A value of a probe that can saturate which was taken but was not finite reads as
      +∞.

    Args:
        trials: as from `trials.comparable_trials`.
        measured: columns of the trials, such as ``probe.gradient_norm``; one that they lack is missing everywhere.
    """
    known = _Columns(trials, measured)
    rows = []
    for workload, treatment, own in _places(trials):
        row = {"workload": workload, "treatment": treatment, **_counts(known, own)}
        results = own[~np.isnan(known.numbers["oriented"][own])]
        row |= _judged(known, results)
        for column in measured:
            row |= _median(known, results, column)
        rows.append(row)
    rows.sort(key=lambda row: (natural(str(row["workload"])), natural(str(row["treatment"]))))
    medians = [name for column in measured for name in (column, f"{column}.saturated")]
    found = pd.DataFrame(rows, columns=[*_COUNTS, *_JUDGED, *medians])
    found = found.astype(dict.fromkeys([*_JUDGED, *medians], float))  # also where there is none
    return found.assign(**_states(found))[[*_COLUMNS, *medians]]


def _places(trials: pd.DataFrame) -> Iterator[tuple[Any, Any, NDArray[np.intp]]]:
    """Yield the workload, the treatment and the places of the trials of each cell."""
    names = ["workload", "treatment"]
    number = trials.groupby(names, sort=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    order = order[number[order] >= 0]
    for own in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []:
        workload, treatment = trials[names].iloc[own[0]]
        yield workload, treatment, own


class _Columns:
    """The columns of trials that cells are made of, as arrays: a frame for each of many cells is slow."""

    def __init__(self, trials: pd.DataFrame, measured: Sequence[str]) -> None:
        self.status = trials["status"].to_numpy(dtype=object)
        self.metric = trials["metric"].to_numpy(dtype=object)
        self.has_metric = trials["metric"].notna().to_numpy()
        missing = np.full(len(trials), math.nan)
        self.numbers = {
            column: trials[column].to_numpy(dtype=float, na_value=math.nan) if column in trials else missing
            for column in (*JUDGED, "is_trained", *measured)
        }
        self.saturated = {}
        for column in measured:
            flag = f"{column}.saturated"
            flags = trials[flag] if flag in trials else pd.Series(pd.NA, index=trials.index)
            flags = flags.astype("boolean")
            values, taken = self.numbers[column], flags.notna().to_numpy()
            self.numbers[column] = np.where(np.isnan(values) & taken, np.inf, values)
            self.saturated[column] = flags.fillna(value=False).to_numpy(dtype=bool)


def _counts(known: _Columns, own: NDArray[np.intp]) -> dict[str, Any]:
    """Return how many trials of a cell came to what, and the name of their outcome."""
    statuses, metrics = known.status[own], known.metric[own][known.has_metric[own]]
    failed = int((statuses == "failed").sum())
    return {
        "metric": metrics[0] if len(metrics) else None,
        "seeds": len(own) - failed,
        "diverged": int((statuses == "diverged").sum()),
        "failed": failed,
    }


def _judged(known: _Columns, results: NDArray[np.intp]) -> dict[str, float]:
    """Return what the outcome of a cell is judged by; the chance level is that of its dataset, the same for all."""
    numbers = {column: values[results] for column, values in known.numbers.items() if column not in known.saturated}
    numbers = {column: values[~np.isnan(values)] for column, values in numbers.items()}
    chance, error, best = (float(numbers[column][0]) if len(numbers[column]) else math.nan for column in JUDGED[1:])
    flags = numbers["is_trained"]
    return {
        "outcome": spread(numbers["oriented"]).median,
        "trained": float(flags.sum()) if len(flags) else math.nan,
        "chance": chance,
        "chance_standard_error": error,
        "best": best,
    }


def _states(found: pd.DataFrame) -> dict[str, Any]:
    """Return the columns ``state`` and ``ranked``."""
    outcome = found["outcome"].to_numpy()
    untrained = is_trained(outcome, found["chance"], found["chance_standard_error"], found["best"]) == 0
    state = np.select(
        [outcome == np.inf, untrained, ~np.isnan(outcome), found["seeds"].to_numpy() == 0],
        ["diverged", "untrained", "trained", "failed"],
        "measured",
    )
    # Any number does that is above all outcomes: of these values only the order is used.
    ranked = np.where(untrained & np.isfinite(outcome), np.finfo(float).max, outcome)
    return {"state": state, "ranked": ranked}


def table(cells: pd.DataFrame, column: str = "outcome") -> pd.DataFrame:
    """Return one column of the cells as a table, workloads × treatments, NaN for a cell that is not there.

    Cells without an outcome are no part of it: these have failed, or were not trained.
    """
    judged = cells[cells["outcome"].notna()] if "outcome" in cells else cells
    wide = judged.pivot(index="workload", columns="treatment", values=column)  # noqa: PD010  # it refuses duplicates
    return wide.reindex(index=sorted(wide.index, key=natural), columns=sorted(wide.columns, key=natural)).astype(float)


class Complete(NamedTuple):
    """A table without gaps, and what was left out to make it so.

    Attributes:
        table: workloads × treatments, no NaN.
        workloads: names left out.
        treatments: names left out.
    """

    table: pd.DataFrame
    workloads: list[str]
    treatments: list[str]


def complete(table: pd.DataFrame) -> Complete:
    """Return the table without the workloads and treatments that have gaps.

    Tests that rank treatments within each workload need every treatment on every one. The row or column with the
    largest share of gaps goes first (a row where they are equal), until none is left. A Fixup network on which Fixup
    alone runs is thus left out before the treatments that do not run there.
    """
    left = table
    workloads: list[str] = []
    treatments: list[str] = []
    while left.size and left.isna().to_numpy().any():
        rows, columns = left.isna().mean(axis="columns"), left.isna().mean(axis="index")
        if rows.max() >= columns.max():
            workloads.append(str(rows.idxmax()))
            left = left.drop(index=rows.idxmax())
        else:
            treatments.append(str(columns.idxmax()))
            left = left.drop(columns=columns.idxmax())
    return Complete(left, workloads, treatments)


def _median(known: _Columns, results: NDArray[np.intp], column: str) -> dict[str, float]:
    values = known.numbers[column][results]
    median = float(np.median(values)) if len(values) else math.nan
    return {column: median, f"{column}.saturated": float(known.saturated[column][results].sum())}
