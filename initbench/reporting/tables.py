"""Tables: what stands in a section of a report, and is written whole beside the page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.comparing.formatting import FILTERS
from initbench.comparing.metrics import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from initbench.comparing.labels import Names
    from initbench.metric import Metric


class Column(NamedTuple):
    """A column of a table as the page shows it.

    Attributes:
        heading: its lines.
        form: the name of the `formatting.FILTERS` that writes its values; ``outcome`` and ``difference`` are written by
            the row's metric, ``mean`` by it with a half-width, and the labels of a ``treatment`` and a ``workload`` as
            their short names.
        value: the frame's column.
        low: that of the lower end of an interval, which then follows in parentheses, or a half-width; empty for none.
        high: that of the upper end.
        metric: that writes the values, where it is not the row's.
    """

    heading: str
    form: str
    value: str
    low: str = ""
    high: str = ""
    metric: Metric | None = None

    @property
    def is_text(self) -> bool:
        """Whether its cells are words, not numbers."""
        return self.form in {"text", "treatment", "workload"}

    def cell(self, row: Mapping[str, Any], metric: Metric, names: Names | None = None) -> str:
        """Return what stands in a row: ``+1.30 (+0.40 to +2.20)``.

        Args:
            row: of the frame.
            metric: of the row.
            names: of treatments and workloads; their labels stand as they are without.
        """
        if self.form in {"treatment", "workload"}:
            known = {} if names is None else {"treatment": names.treatments, "workload": names.workloads}[self.form]
            label = row[self.value]
            return known[label].text if label in known else FILTERS["text"](label)
        metric = self.metric or metric
        if self.form == "mean":
            return metric.text(row[self.value], row[self.low])
        written: dict[str, Callable[..., str]] = {
            "outcome": partial(outcome_text, metric=metric),
            "difference": metric.signed,
        }
        write = written[self.form] if self.form in written else FILTERS[self.form]
        value = write(row[self.value])
        if not self.low or math.isnan(row[self.low]):
            return value
        return f"{value} ({write(row[self.low])} to {write(row[self.high])})"


def outcome_text(value: float, metric: Metric) -> str:
    """Return a value of a metric, ``diverged`` where it is not finite."""
    return "diverged" if math.isinf(value) else metric.text(value)


@dataclass(frozen=True)
class Table:
    """A table: shown in a page, and written whole as ``<name>.csv`` beside it.

    Attributes:
        name: unique in a report.
        title: what stands above it.
        frame: its rows; fractions are fractions.
        columns: what the page shows of them.
        note: what stands below the title, may be empty.
        metrics: by the name that a row's ``metric`` has; the only one where rows have none.
        names: of the treatments and workloads in it.
        is_shown: whether a page shows it; else it is only written beside it.
        is_written: whether it is written beside the page; else it is a part of one that is.
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
        """The cells as the page shows them, by row; a unit that a heading says is in none of them."""
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
            [column.cell(row, metrics.get(row.get("metric", ""), only), self.names) for column in columns]
            for row in rows
        ]
