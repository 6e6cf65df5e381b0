"""Tables about tuners: their objective by step, their scale factors by layer, and what they changed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from initbench.comparing.labels import is_component, scheme_of
from initbench.ledger import TrialRecord
from initbench.reporting.results import Results
from initbench.statistics.cells import spread

Cell = tuple[str, str]
Cells = Mapping[Cell, Sequence[TrialRecord]]

_CELL = ["workload", "treatment"]
_VALUES = ["value_median", "value_smallest", "value_largest"]
_BEFORE = ["before", "before_smallest", "before_largest"]
_AFTER = ["after", "after_smallest", "after_largest"]
STEP_COLUMNS = [*_CELL, "step", "seeds", *_VALUES, "quantity"]
FACTOR_COLUMNS = [*_CELL, "layer", "place", "seeds", *_VALUES, "unit"]
CHANGE_COLUMNS = [
    *(*_CELL, "quantity", "source", "base", "seeds", "steps"),
    *(*_BEFORE, *_AFTER, "smallest_factor", "largest_factor"),
]
OUTCOME_COLUMNS = [*_CELL, "base", "seeds", *_BEFORE, *_AFTER, "metric"]


def tuned_cells(results: Results) -> dict[Cell, list[TrialRecord]]:
    """Return (workload, treatment) → the records with a tuner's history or scale factors."""
    cells: dict[Cell, list[TrialRecord]] = defaultdict(list)
    trials = results.trials
    for trial, workload, treatment in zip(trials["trial_id"], trials["workload"], trials["treatment"], strict=True):
        record = results.by_id[trial]
        if record.initialization.get("tuning") or record.initialization.get("factors"):
            cells[str(workload), str(treatment)].append(record)
    return dict(cells)


def base_of(cell: tuple[str, str], record: TrialRecord, results: Results) -> str:
    """Return the label of the treatment that a tuner starts from, on the same workload; empty if it did not run.

    Its initializer is a component among the tuner's arguments, and its other factors are those of the tuner.
    """
    inner = [value for value in record.spec["initializer"]["arguments"].values() if is_component(value)]
    same = results.trials_on[cell[0]]
    rest = same.loc[same["treatment"] == cell[1], "rest"].iloc[0]
    alike = same.loc[same["rest"] == rest, ["treatment", "trial_id"]].drop_duplicates("treatment")
    for row in alike.to_dict("records"):
        other = results.by_id[row["trial_id"]].spec
        if other["initializer"] in inner and scheme_of(other) == scheme_of(record.spec):
            return str(row["treatment"])
    return ""


def tuning_steps(cells: Cells) -> pd.DataFrame:
    """Return every quantity at each step: `STEP_COLUMNS`.

    A step is left out if a seed got that far and did not keep it. Values that were not finite are +∞.
    """
    rows = [_row(cell) | values for cell, records in cells.items() for values in _steps(records)]
    return pd.DataFrame(rows, columns=STEP_COLUMNS)


def scale_factors(cells: Cells) -> pd.DataFrame:
    """Return the factor that multiplied each parameter, in the model's order: `FACTOR_COLUMNS`."""
    rows = [_row(cell) | values for cell, records in cells.items() for values in _factors(records)]
    return pd.DataFrame(rows, columns=FACTOR_COLUMNS)


def changes_of(cells: Cells, bases: Mapping[Cell, str], factors: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return what tuning changed: `CHANGE_COLUMNS`, explained in `questions.tuning`."""
    sizes = (
        factors.assign(value_median=factors["value_median"].abs()).groupby(_CELL)["value_median"].agg(["min", "max"])
    )
    rows = []
    for cell, records in cells.items():
        shared = _row(cell)
        if cell in sizes.index:
            shared |= {"smallest_factor": sizes.loc[cell, "min"], "largest_factor": sizes.loc[cell, "max"]}
        changes = [*_in_history(records), *(_from_base(cell, bases[cell], results) if cell in bases else ())]
        rows += [shared | row for row in changes or [{"quantity": "", "source": "", "seeds": len(records)}]]
    return pd.DataFrame(rows, columns=CHANGE_COLUMNS)


def outcomes_of(bases: Mapping[Cell, str], results: Results) -> pd.DataFrame:
    """Return the outcomes from each tuner's base and after tuning: `OUTCOME_COLUMNS`."""
    rows = []
    for cell, base in bases.items():
        values, metric = _of_both(cell, base, "oriented", results), results.metric_of[cell[0]]
        if all(values):
            row = _row(cell) | {"base": base, "seeds": len(values[1]), "metric": metric.name}
            for names, numbers in zip((_BEFORE, _AFTER), values, strict=True):
                row |= zip(names, spread(numbers).in_direction(metric), strict=True)
            rows.append(row)
    return pd.DataFrame(rows, columns=OUTCOME_COLUMNS)


def _row(cell: tuple[str, str]) -> dict[str, Any]:
    return dict(zip(_CELL, cell, strict=True))


def _steps(records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    for quantity, histories in _histories(records).items():
        values = [dict(zip(history["step"], history[quantity], strict=True)) for history in histories]
        for step in sorted({step for by_step in values for step in by_step}):
            there = [by_step for by_step in values if max(by_step) >= step]
            numbers = [by_step[step] for by_step in there if step in by_step and not math.isnan(by_step[step])]
            if len(numbers) == len(there):
                yield {"step": int(step), "seeds": len(numbers), "quantity": quantity} | _ends(_VALUES, numbers)


def _factors(records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    values: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for layer, factor in record.initialization.get("factors", {}).items():
            values[layer].append(factor)
    for position, (layer, numbers) in enumerate(values.items()):
        yield {"layer": layer, "place": position, "seeds": len(numbers), "unit": ""} | _ends(_VALUES, numbers)


def _in_history(records: Sequence[TrialRecord]) -> Iterator[dict[str, Any]]:
    for quantity, histories in _histories(records).items():
        steps = float(np.median([history["step"][-1] - history["step"][0] + 1 for history in histories]))
        first, last = ([history[quantity][end] for history in histories] for end in (0, -1))
        yield {"quantity": quantity, "source": "history", "seeds": len(histories), "steps": steps} | _change(
            first, last
        )


def _from_base(cell: tuple[str, str], base: str, results: Results) -> Iterator[dict[str, Any]]:
    """Yield each scalar probe that both the base and the tuner have."""
    for column in results.trials_on[cell[0]].columns:
        if column.startswith("probe.") and not column.endswith(".saturated"):
            values = _of_both(cell, base, column, results)
            if all(values):
                row = {"quantity": column.removeprefix("probe."), "source": "base", "base": base}
                yield row | {"seeds": len(values[1])} | _change(*values)


def _histories(records: Sequence[TrialRecord]) -> dict[str, list[Mapping[str, Sequence[float]]]]:
    """Return quantity → the tuners' histories that have it."""
    by_quantity: dict[str, list[Mapping[str, Sequence[float]]]] = defaultdict(list)
    for record in records:
        history = record.initialization.get("tuning", {})
        for quantity in history:
            if quantity != "step":
                by_quantity[quantity].append(history)
    return by_quantity


def _of_both(cell: tuple[str, str], base: str, column: str, results: Results) -> list[list[float]]:
    """Return the known values of a column of trials for the base and for the tuner."""
    trials = results.trials_on[cell[0]]
    return [trials.loc[trials["treatment"] == name, column].dropna().tolist() for name in (base, cell[1])]


def _change(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    """Return the columns of both; a value that is missing in a history was not finite and counts as +∞."""
    known = ([math.inf if math.isnan(value) else value for value in values] for values in (before, after))
    return {
        name: end
        for names, values in zip((_BEFORE, _AFTER), known, strict=True)
        for name, end in _ends(names, values).items()
    }


def _ends(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    return dict(zip(names, spread(values), strict=True))
