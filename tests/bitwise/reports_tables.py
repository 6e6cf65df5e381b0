"""The CSVs of a report, with their rows by what they are about, under the names of today."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    Key = tuple[str, ...]
    Row = dict[str, str]

KEYS = {
    "results": ("trial_id",),
    "comparison": ("workload", "treatment"),
    "correlation": ("probe", "form", "workload"),
    "curves": ("workload", "treatment", "step"),
    "conditions": ("section", "condition"),
    "costs": ("workload", "treatment"),
    "costs_to_target": ("workload", "treatment"),
    "probes": ("probe", "form"),
    "rank_pairs": ("first", "second"),
    "differences": ("treatment",),
    "paired_differences": ("workload", "treatment"),
    "depths": ("family", "treatment", "depth"),
}
"""The columns that say what a row is about, by table; of another table a row's number does."""

_EVERYWHERE = {
    "group": ("workload",),
    "initializer": ("treatment",),
    "initializers": ("treatments",),
    **{f"test_error_{name}": (f"outcome_{name}",) for name in ("median", "mean", "interval", "smallest", "largest")},
}
RENAMED: dict[str, dict[str, tuple[str, ...]]] = {
    "results": {
        "group": ("workload",),
        "initializer": ("initializer", "treatment"),
        "test_error": ("test_error", "outcome"),
    }
}
"""Columns of 0.1 and what they are called today, by table; a table that is not named here has `_EVERYWHERE`."""


@dataclass
class Table:
    """A CSV.

    Attributes:
        columns: its columns, in their order.
        rows: by the values of the key's columns.
    """

    columns: list[str] = field(default_factory=list)
    rows: dict[Key, Row] = field(default_factory=dict)


def read_tables(folder: Path, *, renamed: bool) -> dict[str, Table]:
    """Return the tables of a report by name.

    Args:
        folder: of the report.
        renamed: whether the columns have the names of 0.1.
    """
    return {path.stem: _read(path, renamed=renamed) for path in sorted(folder.glob("*.csv"))}


def _read(path: Path, *, renamed: bool) -> Table:
    name = path.stem
    names = RENAMED.get(name, _EVERYWHERE) if renamed else {}
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    columns = [names.get(column, (column,)) for column in lines[0]]
    table = Table([column for several in columns for column in several])
    seen: Counter[Key] = Counter()
    for number, line in enumerate(lines[1:]):
        row = {c: value for several, value in zip(columns, line, strict=True) for c in several}
        key = tuple(_canonical(row[c]) for c in KEYS[name]) if name in KEYS else (str(number),)
        seen[key] += 1
        table.rows[key if seen[key] == 1 else (*key, f"again {seen[key]}")] = row
    if name == "results":
        _number_cells(table)
    return table


def _number_cells(table: Table) -> None:
    """Put the first trial of each cell in the place of its hash.

    The hash is another in schema 2; which trials are replicates has to be the same.
    """
    first: dict[str, str] = {}
    for (trial, *_), row in sorted(table.rows.items()):
        first.setdefault(row["cell"], trial)
    for row in table.rows.values():
        row["cell"] = f"that of {first[row['cell']]}"


def _canonical(text: str) -> str:
    """Return a number of a key as one text, be it written as an integer or not."""
    value = number(text)
    return text if value is None or len(text) > 20 else repr(value)


def number(text: str) -> float | None:
    """Return the number that a cell holds, NaN for an empty one, None for other text."""
    if text == "":
        return math.nan
    try:
        return float(text)
    except ValueError:
        return None


def equal(first: str, second: str) -> bool:
    """Return whether two cells hold the same text, or numbers with the same bits; NaN equals NaN."""
    if first == second:
        return True
    one, other = number(first), number(second)
    if one is None or other is None:
        return False
    return one.hex() == other.hex()
