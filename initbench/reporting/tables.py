"""Tables: shown in part in a section of a page, and written whole beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from initbench.comparing.formatting import FILTERS, typeset
from initbench.comparing.metrics import UNKNOWN
from initbench.comparing.names import Names
from initbench.metric import Metric
from initbench.reporting.columns import Column, columns
from initbench.reporting.sizes import mean_words

if TYPE_CHECKING:
    import pandas as pd

    from initbench.reporting.results import Results


@dataclass(frozen=True)
class Table:
    """A table: shown in a page, and written whole as ``<name>.csv`` beside it.

    Attributes:
        name: unique in a report.
        title: its heading.
        frame: its rows; fractions are fractions.
        columns: those that the page shows.
        note: an explanation below the title; may be empty.
        metrics: by name, which is in a row's ``metric`` if there are several.
        names: of the treatments and workloads in it.
        is_shown: whether a page shows it; else it is only written beside it.
        is_written: whether it is written beside the page; if not, it is part of another table that is.
    """

    name: str
    title: str
    frame: pd.DataFrame
    columns: Sequence[Column] = ()
    note: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    names: Names | None = None
    is_shown: bool = True
    is_written: bool = True

    @property
    def cells(self) -> list[list[str]]:
        """The cells as the page shows them, by row, without units that a heading gives."""
        rows = [{str(key): value for key, value in row.items()} for row in self.frame.to_dict("records")]
        headings = " ".join(column.heading for column in self.columns).replace("\n", " ").casefold()

        def headed(metric: Metric) -> Metric:
            return metric.beside_title if metric.title.casefold() in headings else metric

        metrics = {name: headed(metric) for name, metric in self.metrics.items()}
        columns = [
            column if column.metric is None else column._replace(metric=headed(column.metric))
            for column in self.columns
        ]
        only = next(iter(metrics.values())) if len(metrics) == 1 else UNKNOWN
        return [
            [cell_text(column, row, metrics.get(row.get("metric", ""), only), self.names) for column in columns]
            for row in rows
        ]


def table_of(
    results: Results, name: str, title: str, frame: pd.DataFrame, show: str = "", note: str = "", **words: str
) -> Table:
    """Return a table of a report; without `show` it is only written beside the page.

    Args:
        results: of the report.
        name: unique in a report.
        title: its heading.
        frame: its rows.
        show: the names of the columns that the page shows, separated by blanks (`columns.CATALOGUE`).
        note: an explanation below the title.
        **words: more words for headings, beside those of the report.
    """
    metrics = {metric.name: metric for metric in results.metrics.values()}
    shown = columns(show, name, map(str, frame.columns), results.words | words)
    return Table(name, title, frame, shown, note, metrics, results.names, is_shown=bool(show))


def cell_text(column: Column, row: Mapping[str, Any], metric: Metric, names: Names | None = None) -> str:
    """Return the text of a row in a column: ``−1.30 (−2.20 to −0.40)``."""
    value = row[column.value]
    if column.form in {"treatment", "workload"}:
        known = {} if names is None else {"treatment": names.treatments, "workload": names.workloads}[column.form]
        return known[value].text if value in known else FILTERS["text"](value)
    metric = column.metric or metric
    if column.form == "mean":
        return typeset(mean_words(value, row[column.low], metric))
    write = {"outcome": _outcome(metric), "difference": metric.signed}.get(column.form) or FILTERS[column.form]
    text = write(value)
    if column.low and not math.isnan(row[column.low]):
        most = {"difference": metric.largest_difference, "points": 1.0}.get(column.form, math.inf)
        text += f" ({write(max(row[column.low], -most))} to {write(min(row[column.high], most))})"
    return text if column.is_text else typeset(text)


def _outcome(metric: Metric) -> Callable[[float], str]:
    return lambda value: "diverged" if math.isinf(value) else metric.text(value)
