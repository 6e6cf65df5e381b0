"""From trials to cells, the unit of analysis, and from cells to tables of workloads × treatments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.chance import JUDGED, TRAINS, is_trained
from initbench.comparing.formatting import natural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from initbench.metric import Metric

_COUNTS = ["workload", "treatment", "metric", "seeds", "diverged", "failed"]
_JUDGED = ["outcome", "trained", "chance", "chance_standard_error", "best"]
_COLUMNS = [*_COUNTS, *_JUDGED[:3], "trains", "state", "ranked"]


def trial_outcomes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with a result, with their oriented outcome as `outcome`: lower is better, +∞ diverged.

    Failed trials, whose outcome is unknown, and trials without training are left out.
    """
    results = trials[trials["oriented"].notna()]
    return results.assign(outcome=results["oriented"].astype(float))


class Spread(NamedTuple):
    """Summary of the values of several seeds for a report; either all are oriented (lower is better), or none.

    Attributes:
        median: median of the values; +∞ if at least half of them diverged.
        smallest: smallest value.
        largest: largest value; +∞ if one diverged.
    """

    median: float
    smallest: float
    largest: float

    def in_direction(self, metric: Metric) -> Spread:
        """Convert a spread of oriented values into one of the metric's values."""
        ends = sorted([metric.oriented(self.smallest), metric.oriented(self.largest)])
        return Spread(metric.oriented(self.median), *ends)


def spread(values: ArrayLike) -> Spread:
    """Return the median, the smallest and the largest of values; NaN if there are none."""
    x = np.asarray(values, dtype=float)
    return (
        Spread(float(np.median(x)), float(x.min()), float(x.max())) if len(x) else Spread(math.nan, math.nan, math.nan)
    )


def cells(trials: pd.DataFrame, measured: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per workload and treatment: the only place where seeds are combined into a cell.

    - ``workload``, ``treatment``; ``metric``: the outcome's name, missing if all trials failed;
    - ``seeds``: trials that finished or diverged; ``diverged``, ``failed``: counts;
    - ``outcome``: the median oriented outcome over seeds, lower is better, with +∞ for a diverged one; missing if no
      trial has a result;
    - ``trained``: number of seeds that are better than chance, missing if chance is unknown;
    - ``trains``: number of seeds that come at least half of the way from chance to the best median of their workload
      (`chance.TRAINS`), missing if chance is unknown;
    - ``chance``: the oriented chance level, missing if unknown;
    - ``state``: ``trained``, ``untrained`` if the median is not better than chance (`chance.is_trained`), ``diverged``
      if it is +∞, ``failed`` if every trial failed, ``measured`` if nothing was trained. A cell with an unknown chance
      level counts as trained;
    - ``ranked``: values for ranking: the outcome, but equal for all untrained cells, worse than any trained cell and
      better than a diverged one;
    - for each column of `measured` its median over seeds, missing if a seed has none, and ``<column>.saturated``, the
      number of seeds at which it is saturated. If a probe that can saturate was measured but not finite, the value
      counts as +∞.

    Args:
        trials: as from `trials.comparable_trials`.
        measured: columns of the trials, such as ``probe.gradient_norm``; a column that does not exist is missing
            everywhere.
    """
    known = _Columns(trials, measured)
    rows = []
    for workload, treatment, positions in _positions(trials):
        row = {"workload": workload, "treatment": treatment, **_counts(known, positions)}
        results = positions[~np.isnan(known.numbers["oriented"][positions])]
        row |= _judged(known, results)
        for column in measured:
            row |= _median(known, results, column)
        rows.append(row)
    rows.sort(key=lambda row: (natural(str(row["workload"])), natural(str(row["treatment"]))))
    medians = [name for column in measured for name in (column, f"{column}.saturated")]
    frame = pd.DataFrame(rows, columns=[*_COUNTS, *_JUDGED, *medians])
    frame = frame.astype(dict.fromkeys([*_JUDGED, *medians], float))  # also where there is none
    frame = frame.assign(**_states(frame))
    return frame.assign(trains=_training_seeds(frame, trials))[[*_COLUMNS, *medians]]


def _positions(trials: pd.DataFrame) -> Iterator[tuple[Any, Any, NDArray[np.intp]]]:
    """Yield the workload, the treatment and the positions of the trials of each cell."""
    names = ["workload", "treatment"]
    number = trials.groupby(names, sort=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    order = order[number[order] >= 0]
    workloads, treatments = (trials[name].to_numpy(dtype=object) for name in names)
    for positions in np.split(order, np.flatnonzero(np.diff(number[order])) + 1) if len(order) else []:
        yield workloads[positions[0]], treatments[positions[0]], positions


class _Columns:
    """The columns of trials that cells are computed from, as arrays: one frame per cell would be slow."""

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


def _counts(known: _Columns, positions: NDArray[np.intp]) -> dict[str, Any]:
    """Return how many trials of a cell finished, diverged or failed, and the name of their outcome."""
    statuses, metrics = known.status[positions], known.metric[positions][known.has_metric[positions]]
    failed = int((statuses == "failed").sum())
    return {
        "metric": metrics[0] if len(metrics) else None,
        "seeds": len(positions) - failed,
        "diverged": int((statuses == "diverged").sum()),
        "failed": failed,
    }


def _judged(known: _Columns, results: NDArray[np.intp]) -> dict[str, float]:
    """Return the values that judge a cell's outcome; the chance level is its dataset's, the same for all trials."""
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


def _states(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns ``state`` and ``ranked``."""
    outcome = frame["outcome"].to_numpy()
    untrained = is_trained(outcome, frame["chance"], frame["chance_standard_error"], frame["best"]) == 0
    state = np.select(
        [outcome == np.inf, untrained, ~np.isnan(outcome), frame["seeds"].to_numpy() == 0],
        ["diverged", "untrained", "trained", "failed"],
        "measured",
    )
    # Any number above all outcomes works, because only the order is used.
    ranked = np.where(untrained & np.isfinite(outcome), np.finfo(float).max, outcome)
    return {"state": state, "ranked": ranked}


def _training_seeds(frame: pd.DataFrame, trials: pd.DataFrame) -> list[float]:
    best = frame[frame["state"] == "trained"].groupby("workload")["outcome"].min()
    results = trials[trials["oriented"].notna()]
    chance = results["oriented_chance"].to_numpy(dtype=float)
    least = chance - TRAINS * (chance - results["workload"].map(best).to_numpy(dtype=float))
    flags = (results["is_trained"] == 1) & (results["oriented"].to_numpy(dtype=float) <= least)
    flags = flags.astype(float).where(results["is_trained"].notna())
    counts = flags.groupby([results["workload"], results["treatment"]]).sum(min_count=1).to_dict()
    return [counts.get(cell, math.nan) for cell in zip(frame["workload"], frame["treatment"], strict=True)]


def all_train(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which cells train at all seeds; if chance is unknown, at which no seed diverged."""
    return _at_all_seeds(cells, "trains")


def all_learn(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which cells are better than chance at all seeds; if chance is unknown, at which no seed diverged."""
    return _at_all_seeds(cells, "trained")


def none_learns(cells: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which cells are better than chance at no seed; if chance is unknown, at which all seeds diverged."""
    learned = cells["trained"].fillna(cells["seeds"] - cells["diverged"])
    return ((learned == 0) & cells["outcome"].notna()).to_numpy()


def _at_all_seeds(cells: pd.DataFrame, column: str) -> NDArray[np.bool_]:
    count = cells[column].fillna(cells["seeds"] - cells["diverged"])
    return ((count == cells["seeds"]) & cells["outcome"].notna()).to_numpy()


def table(cells: pd.DataFrame, column: str = "outcome") -> pd.DataFrame:
    """Return one column of the cells as a table, workloads × treatments, NaN for a missing cell.

    Cells without an outcome, which failed or were not trained, are left out.
    """
    judged = cells[cells["outcome"].notna()] if "outcome" in cells else cells
    wide = judged.pivot(index="workload", columns="treatment", values=column)  # noqa: PD010  # it refuses duplicates
    return wide.reindex(index=sorted(wide.index, key=natural), columns=sorted(wide.columns, key=natural)).astype(float)


class Complete(NamedTuple):
    """A table without gaps, and the names left out to make it so.

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
    largest share of gaps is removed first (a row if they are equal), until no gap is left. A Fixup network that only
    Fixup runs on is therefore left out before the treatments that do not run there.
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
