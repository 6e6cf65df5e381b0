"""Two reports of the same trials: what is equal, and which reason what differs has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bitwise.reports_reasons import FURTHER, NEW, Reason
from bitwise.reports_schema import NEW_IN_RECIPE
from bitwise.reports_tables import KEYS, Table, equal, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bitwise.reports_tables import Key, Row

    Tables = Mapping[str, Table]
    Sources = Sequence[tuple[Reason, Tables]]
    """What the old version says where a reason's cause is put into the trials."""

_UNSCALAR = ("probe_layers", "probe_curves")  # tables of measurements that schema 1 did not have


@dataclass
class Compared:
    """A table of both reports.

    Attributes:
        name: of the table.
        rows: of the new report.
        numbers: in them that are no key and not new.
        equal: how many of these are as they were.
        reasons: how many cells, rows or columns differ for a reason.
        unexplained: a line for each that has none.
    """

    name: str
    rows: int = 0
    numbers: int = 0
    equal: int = 0
    reasons: Counter[Reason] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether every number is as it was; there may be new ones."""
        return not self.unexplained and not set(self.reasons) - {NEW}


def compare_tables(now: Tables, before: Tables, sources: Sources = ()) -> dict[str, Compared]:
    """Compare the tables of two reports.

    Args:
        now: of the new version.
        before: of the old one, from the same trials.
        sources: of the old one, from trials with the cause of a reason.
    """
    found = {}
    for name in dict.fromkeys([*before, *now]):
        result = found[name] = Compared(name)
        if name not in before and not any(name in tables for _, tables in sources):
            result.rows = len(now[name].rows)
            result.reasons[NEW] += 1
            continue
        new, old = now.get(name, Table()), before.get(name, Table())
        result.rows = len(new.rows)
        others = [(reason, tables[name]) for reason, tables in sources if name in tables]
        lacking = [reason for reason, tables in sources if name not in tables]
        columns = set(old.columns).union(*(table.columns for _, table in others))
        if added := [column for column in new.columns if column not in columns]:
            result.reasons[NEW] += len(added)
        for column in columns.difference(new.columns) if new.rows else ():
            result.unexplained.append(f"the column {column} is missing")
        for key in dict.fromkeys([*old.rows, *new.rows]):
            if key not in new.rows:
                gone = [*lacking, *(reason for reason, table in others if key not in table.rows)]
                _count(result, next((r for r in gone if r.covers(name)), None), f"{_place(key)}: the row is missing")
                continue
            _compare_row(result, key, new.rows[key], old.rows.get(key), others, now)
    return found


def _compare_row(
    result: Compared, key: Key, new: Row, old: Row | None, others: Sequence[tuple[Reason, Table]], now: Tables
) -> None:
    known = [(reason, table.rows[key]) for reason, table in others if key in table.rows]
    if old is None:
        added = next((r for r, row in known if r.covers(result.name)), None) or _added(result.name, key, now)
        _count(result, added, f"{_place(key)}: the row is new")
        if added in {NEW, FURTHER, None}:
            return
    columns = set(old or ()).union(*(row for _, row in known))
    for column, value in new.items():
        if column not in columns:
            continue
        was = None if old is None else old.get(column)
        is_number = column not in KEYS.get(result.name, ()) and any(
            text and number(text) is not None for text in (value, was)
        )
        result.numbers += is_number
        if was is not None and equal(value, was):
            result.equal += is_number
            continue
        reasons = (
            reason
            for reason, row in known
            if reason.covers(result.name, column) and column in row and equal(value, row[column])
        )
        before = "nothing" if was is None else was or "–"
        _count(result, next(reasons, None), f"{_place(key)} {column}: {before} → {value or '–'}")


def _added(table: str, key: Key, now: Tables) -> Reason | None:
    """Return the reason for a row that the old version has not, whatever is done to its trials."""
    if table == "conditions":
        section, condition = key
        measured = {f"probe {row['probe']}" for name in _UNSCALAR if name in now for row in now[name].rows.values()}
        return NEW if section in measured or (section == "recipe" and condition in NEW_IN_RECIPE) else None
    treatment = key[-1] if table == "paired_differences" else key[0]
    if FURTHER.covers(table):
        ranks = now.get("differences", Table()).rows.get((treatment,))
        return FURTHER if ranks is None or ranks["mean_rank"] == "" else None
    return None


def _count(result: Compared, reason: Reason | None, line: str) -> None:
    if reason is None:
        result.unexplained.append(line)
    else:
        result.reasons[reason] += 1


def _place(key: Iterable[str]) -> str:
    return " · ".join(key)
