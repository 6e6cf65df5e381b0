"""What tuners did, as frames: their objective by step, their scale factors by layer, and what changed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.comparing.labels import is_component
from initbench.statistics.cells import spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.reporting.results import Results

    Cell = tuple[str, str]
    Cells = Mapping[Cell, Sequence[TrialRecord]]

_ENDS = ("median", "smallest", "largest")
_CELL = ["workload", "treatment"]
_BEFORE_AFTER = [f"{when}{end}" for when in ("before", "after") for end in ("", "_smallest", "_largest")]
STEP_COLUMNS = [*_CELL, "step", "seeds", "value_median", "value_smallest", "value_largest", "quantity"]
FACTOR_COLUMNS = [*_CELL, "layer", "place", "seeds", "value_median", "value_smallest", "value_largest", "unit"]
CHANGE_COLUMNS = [
    *(*_CELL, "quantity", "source", "base", "seeds", "steps"),
    *_BEFORE_AFTER,
    *("smallest_factor", "largest_factor"),
]
OUTCOME_COLUMNS = [*_CELL, "base", "seeds", *_BEFORE_AFTER, "metric"]


def tuned_cells(results: Results) -> dict[Cell, list[TrialRecord]]:
    """Return (workload, treatment) → the records that tell a tuner's history or scale factors.

    Args:
        results: whose records are as `frame.slim` leaves them.
    """
    found: dict[Cell, list[TrialRecord]] = defaultdict(list)
    trials = results.trials
    for own, workload, treatment in zip(trials["trial_id"], trials["workload"], trials["treatment"], strict=True):
        record = results.by_id[own]
        if record.initialization.get("tuning") or record.initialization.get("factors"):
            found[str(workload), str(treatment)].append(record)
    return dict(found)


def tuning_steps(found: Cells) -> pd.DataFrame:
    """Return the medians of every quantity at each step: `STEP_COLUMNS`.

    A step that some seed has not kept which got that far is left out. A value that was not finite reads as +∞.

    Args:
        found: as from `tuned_cells`.
    """
    return pd.DataFrame([row for cell, own in found.items() for row in _steps(cell, own)], columns=STEP_COLUMNS)


def scale_factors(found: Cells) -> pd.DataFrame:
    """Return by what each parameter of each cell was multiplied, in the model's order: `FACTOR_COLUMNS`.

    Args:
        found: as from `tuned_cells`.
    """
    return pd.DataFrame([row for cell, own in found.items() for row in _factors(cell, own)], columns=FACTOR_COLUMNS)


def changes_of(found: Cells, bases: Mapping[Cell, str], factors: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return what tuning changes: `CHANGE_COLUMNS`, as `analyses.tuning.Tuning` explains them.

    Args:
        found: as from `tuned_cells`.
        bases: of each cell that has one, as from `base_of`.
        factors: as from `scale_factors`.
        results: that they are of.
    """
    return pd.DataFrame(list(_changes(found, bases, factors, results)), columns=CHANGE_COLUMNS)


def outcomes_of(bases: Mapping[Cell, str], results: Results) -> pd.DataFrame:
    """Return the outcome from each tuner's base and after tuning: `OUTCOME_COLUMNS`.

    Args:
        bases: of each cell that has one, as from `base_of`.
        results: that they are of.
    """
    rows = [row for cell, base in bases.items() for row in _outcomes(cell, base, results)]
    return pd.DataFrame(rows, columns=OUTCOME_COLUMNS)


def base_of(cell: tuple[str, str], record: TrialRecord, results: Results) -> str:
    """Return the label of the treatment that a tuner starts from, on the same workload; empty where it did not run.

    That is one whose initializer is a component among the tuner's arguments, and whose other factors are the tuner's.
    """
    inner = [value for value in record.spec["initializer"]["arguments"].values() if is_component(value)]
    same = results.trials_on[cell[0]]
    rest = same.loc[same["treatment"] == cell[1], "rest"].iloc[0]
    alike = same.loc[same["rest"] == rest, ["treatment", "trial_id"]].drop_duplicates("treatment")
    for row in alike.to_dict("records"):
        other = results.by_id[row["trial_id"]].spec
        if other["initializer"] in inner and other["scheme"] == record.spec["scheme"]:
            return str(row["treatment"])
    return ""


def _steps(cell: tuple[str, str], records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    """Yield the medians of every quantity at the steps that all have which got that far."""
    histories = [record.initialization.get("tuning", {}) for record in records]
    for quantity in dict.fromkeys(name for own in histories for name in own if name != "step"):
        values = [dict(zip(own["step"], own[quantity], strict=True)) for own in histories if quantity in own]
        for step in sorted({step for own in values for step in own}):
            there = [own for own in values if max(own) >= step]
            numbers = [own[step] for own in there if step in own and not math.isnan(own[step])]
            if len(numbers) == len(there):
                yield {
                    **dict(zip(_CELL, cell, strict=True)), "step": int(step), "seeds": len(numbers),
                    **_named("value_", numbers), "quantity": quantity,
                }  # fmt: skip


def _factors(cell: tuple[str, str], records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    values: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for layer, factor in record.initialization.get("factors", {}).items():
            values[layer].append(factor)
    for place, (layer, numbers) in enumerate(values.items()):
        own = {"layer": layer, "place": place, "seeds": len(numbers), "unit": ""}
        yield dict(zip(_CELL, cell, strict=True)) | own | _named("value_", numbers)


def _named(prefix: str, numbers: Sequence[float]) -> dict[str, float]:
    return {f"{prefix}{end}": value for end, value in zip(_ENDS, spread(numbers), strict=True)}


def _changes(
    found: Cells, bases: Mapping[tuple[str, str], str], factors: pd.DataFrame, results: Results
) -> Iterator[dict[str, Any]]:
    sizes = (
        factors.assign(value_median=factors["value_median"].abs()).groupby(_CELL)["value_median"].agg(["min", "max"])
    )
    for cell, records in found.items():
        shared: dict[str, Any] = dict(zip(_CELL, cell, strict=True))
        if cell in sizes.index:
            shared |= {"smallest_factor": sizes.loc[cell, "min"], "largest_factor": sizes.loc[cell, "max"]}
        rows = [*_of_history(records), *(_of_base(cell, bases[cell], results) if cell in bases else ())]
        for row in rows or [{"quantity": "", "source": "", "seeds": len(records)}]:
            yield shared | row


def _of_history(records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    histories = [record.initialization.get("tuning", {}) for record in records]
    for quantity in dict.fromkeys(name for own in histories for name in own if name != "step"):
        own = [history for history in histories if quantity in history]
        steps = float(np.median([history["step"][-1] - history["step"][0] + 1 for history in own]))
        ends = {
            "before": [history[quantity][0] for history in own],
            "after": [history[quantity][-1] for history in own],
        }
        yield {"quantity": quantity, "source": "history", "seeds": len(own), "steps": steps} | _before_after(ends)


def _of_base(cell: tuple[str, str], base: str, results: Results) -> Iterator[dict[str, Any]]:
    """Yield each scalar probe that was taken of both."""
    trials = results.trials_on[cell[0]]
    both = [trials[trials["treatment"] == name] for name in (base, cell[1])]
    for column in trials.columns:
        if column.startswith("probe.") and not column.endswith(".saturated"):
            values = [own[column].dropna().tolist() for own in both]
            if all(values):
                row = {
                    "quantity": column.removeprefix("probe."),
                    "source": "base",
                    "base": base,
                    "seeds": len(values[1]),
                }
                yield row | _before_after(dict(zip(("before", "after"), values, strict=True)))


def _outcomes(cell: tuple[str, str], base: str, results: Results) -> Iterator[dict[str, Any]]:
    trials = results.trials_on[cell[0]]
    values = [trials.loc[trials["treatment"] == name, "oriented"].dropna().tolist() for name in (base, cell[1])]
    metric = results.metric_of[cell[0]]
    if all(values):
        row = {**dict(zip(_CELL, cell, strict=True)), "base": base, "seeds": len(values[1]), "metric": metric.name}
        for when, numbers in zip(("before", "after"), values, strict=True):
            names = (when, f"{when}_smallest", f"{when}_largest")
            row |= dict(zip(names, spread(numbers).in_direction(metric), strict=True))
        yield row


def _before_after(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the medians with their ends; a value that is missing in a history reads as not finite."""
    columns: dict[str, float] = {}
    for when, numbers in values.items():
        known = [math.inf if math.isnan(value) else value for value in numbers]
        columns |= dict(zip((when, f"{when}_smallest", f"{when}_largest"), spread(known), strict=True))
    return columns
