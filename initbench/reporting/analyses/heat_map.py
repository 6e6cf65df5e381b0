"""The heat map of treatments × workloads, ready to be set: every text is written, every cell has its state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pandas as pd

from initbench.comparing.labels import Name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

State = Literal["trained", "untrained", "diverged", "incompatible", "failed", "missing", "measured"]

STATES: Mapping[State, str] = {
    "trained": "",
    "measured": "",
    "untrained": "did not train",
    "diverged": "diverged",
    "incompatible": "cannot run",
    "failed": "failed",
    "missing": "missing",
}
"""What a cell says in place of its value."""


@dataclass(frozen=True)
class HeatCell:
    """A treatment on a workload.

    Attributes:
        state: as in `cells.cells`, and ``incompatible`` and ``missing``.
        text: the median over seeds with its unit, or what else is to be said, where the state alone does not say it.
        note: behind the value or the state, such as ``2 of 3 seeds``.
        level: place between the workload's chance level (0) and its best value (1); NaN: it has no colour.
        is_best: whether it is the best of its workload or not told apart from the best.
        title: a whole sentence, for who points at the cell.
        mean: with half the width of its interval, ``2.54 ± 0.31 %``; empty where a seed diverged or is alone.
        is_told_apart: whether it is the best and tests tell it apart from every other treatment on the workload; from
            one that diverged, whether all seeds of both say so, three or more of each.
    """

    state: State
    text: str = ""
    note: str = ""
    level: float = math.nan
    is_best: bool = False
    title: str = ""
    mean: str = ""
    is_told_apart: bool = False

    @property
    def words(self) -> str:
        """What the cell says: its value, or in words why it has none."""
        return STATES[self.state] or self.text


@dataclass(frozen=True)
class HeatColumn:
    """A workload.

    Attributes:
        short: what tells it apart, such as ``plain-28``.
        detail: what else varies, such as ``no normalization``; may be empty.
        label: its whole name.
        metric: of its values where workloads have several, such as ``bits per byte``; else empty.
    """

    short: str
    detail: str
    label: str
    metric: str = ""


@dataclass(frozen=True)
class HeatRow:
    """A treatment.

    Attributes:
        short: its name, such as ``delta_orthogonal``.
        detail: what varies, such as ``gain 2``; may be empty.
        label: its whole name.
        cells: one for each column.
        trains: on how many workloads that it can run, ``2 of 2``; empty where that is not known.
        cost: of its initialization, ``450 steps · 24 s`` or ``none``.
    """

    short: str
    detail: str
    label: str
    cells: Sequence[HeatCell]
    trains: str = ""
    cost: str = ""


@dataclass(frozen=True)
class HeatMap:
    """All cells, in the order of the page.

    Attributes:
        rows: the treatment that trains on most workloads first; what cannot run everywhere last.
        columns: the workloads.
        metric: of all values, such as ``test accuracy, median of seeds``; empty where workloads have several.
        darkest: what the colour of level 1 means, such as ``low error``.
        lightest: what the colour of level 0 means, such as ``high``.
    """

    rows: Sequence[HeatRow]
    columns: Sequence[HeatColumn]
    metric: str = ""
    darkest: str = "best"
    lightest: str = "worst"

    @property
    def cells(self) -> list[HeatCell]:
        """Every cell, by row."""
        return [cell for row in self.rows for cell in row.cells]

    @property
    def states(self) -> set[State]:
        """Which states occur."""
        return {cell.state for cell in self.cells}

    @property
    def has_levels(self) -> bool:
        """Whether any value has a colour."""
        return any(not math.isnan(cell.level) and not STATES[cell.state] for cell in self.cells)

    @property
    def has_best(self) -> bool:
        """Whether any cell is the best of its workload or not told apart from it."""
        return any(cell.is_best for cell in self.cells)

    @property
    def unit(self) -> str:
        """The unit that all values have, empty where they have none or several."""
        values = [cell.text.split(maxsplit=1) for cell in self.cells if not STATES[cell.state]]
        units = {" ".join(value[1:]) for value in values}
        return units.pop() if len(units) == 1 else ""

    @property
    def frame(self) -> pd.DataFrame:
        """One row per cell: ``treatment, workload, state, text, note, level, is_best``; the names are short ones."""
        rows = [
            {
                "treatment": Name(row.short, row.detail).text,
                "workload": Name(column.short, column.detail).text,
                "state": cell.state,
                "text": cell.words,
                "note": cell.note,
                "level": cell.level,
                "is_best": cell.is_best,
            }
            for row in self.rows
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]
        return pd.DataFrame(rows, columns=["treatment", "workload", "state", "text", "note", "level", "is_best"])
