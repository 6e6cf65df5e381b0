"""Figures and tables: what a section of a report is made of, and what is written beside the page."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import escape

from initbench.reporting.charts import styles
from initbench.reporting.formatting import FILTERS
from initbench.reporting.metrics import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from initbench.metric import Metric

MARKER = 'data-made-by="initbench report"'
_MARGIN, _LINE, _TITLE = 12, 18, 30
_TEXT = "#1c2430"  # on white ground
_LONGEST_STEM = 120  # a file system takes 255 bytes, with number and suffix
_PANEL = 420  # px: what is wider is not shrunk to the width of a panel


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        name: unique in a report; its file is ``figures/<name>.svg``.
        title: what stands above it.
        alt: what it shows, in words, for who cannot see it.
        drawing: an SVG whose text and axes have the colour of the page (``currentColor``).
        note: what stands below the title, may be empty.
    """

    name: str
    title: str
    alt: str
    drawing: str
    note: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it takes the room of two panels."""
        return _size(self.drawing)[0] > _PANEL

    @property
    def inline(self) -> str:
        """The drawing as it stands in a page, with its alternative text."""
        return self.drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(self.alt)}" ', 1)

    def file(self, colours: Mapping[str, str]) -> str:
        """Return the drawing as a file of its own: with title and legend, in fixed colours.

        Args:
            colours: of all initializers, as from `charts.colours`.
        """
        width, height = _size(self.drawing)
        widest = max([width, *(30 + 7.2 * len(label) for label in colours), 7.6 * len(self.title)])
        outer_width = round(widest + 2 * _MARGIN)
        outer_height = round(_TITLE + height + _LINE * len(colours) + 2 * _MARGIN)
        place = f'x="{_MARGIN}" y="{_MARGIN + _TITLE}" '
        lines = [
            legend_key(*style, _MARGIN + 8, y - 4)
            + f'<text x="{_MARGIN + 20}" y="{y:g}" font-size="12">{escape(label)}</text>'
            for i, (label, style) in enumerate(styles(colours).items())
            for y in [_MARGIN + _TITLE + height + _LINE * (i + 0.8)]
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {MARKER} role="img" width="{outer_width}" '
            f'height="{outer_height}" viewBox="0 0 {outer_width} {outer_height}" color="{_TEXT}" fill="{_TEXT}" '
            f'font-family="sans-serif"><title>{escape(self.title)}</title><desc>{escape(self.alt)}</desc>'
            f'<rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="{_MARGIN}" y="{_MARGIN + 14}" font-size="14">{escape(self.title)}</text>'
            + self.drawing.replace("<svg ", f"<svg {place}", 1).replace("currentColor", _TEXT)
            + "".join(lines)
            + "</svg>\n"
        )


class Column(NamedTuple):
    """A column of a table as the page shows it.

    Attributes:
        heading: its lines.
        form: the name of the `formatting.FILTERS` that writes its values; ``outcome`` and ``difference`` are written by
            the row's metric.
        value: the frame's column.
        low: that of the lower end of an interval, which then follows in parentheses; empty for none.
        high: that of the upper end.
    """

    heading: str
    form: str
    value: str
    low: str = ""
    high: str = ""

    def cell(self, row: Mapping[str, Any], metric: Metric) -> str:
        """Return what stands in a row: ``+1.30 (+0.40 to +2.20)``.

        Args:
            row: of the frame.
            metric: of the row.
        """
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
    """A table: shown in the page, and written whole as ``<name>.csv`` beside it.

    Attributes:
        name: unique in a report.
        title: what stands above it.
        frame: its rows; fractions are fractions.
        columns: what the page shows of them.
        note: what stands below the title, may be empty.
        metrics: by the name that a row's ``metric`` has; the only one where rows have none.
    """

    name: str
    title: str
    frame: pd.DataFrame
    columns: Sequence[Column] = ()
    note: str = ""
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    @property
    def cells(self) -> list[list[str]]:
        """The cells as the page shows them, by row."""
        rows = [{str(key): value for key, value in row.items()} for row in self.frame.to_dict("records")]
        only = next(iter(self.metrics.values())) if len(self.metrics) == 1 else UNKNOWN
        return [
            [column.cell(row, self.metrics.get(row.get("metric", ""), only)) for column in self.columns] for row in rows
        ]


@dataclass(frozen=True)
class Remark:
    """A sentence that stands where a figure or a table would: why it is not there."""

    text: str


class Answer(NamedTuple):
    """A verdict.

    Attributes:
        where: what it holds for: all workloads, one of them, or a probe.
        sentence: a number with its interval, or what is lacking.
        is_detail: whether it stands behind the question's first answers, for who wants to know more.
    """

    where: str
    sentence: str
    is_detail: bool = False


@dataclass(frozen=True)
class Section:
    """What one part of the report says.

    Attributes:
        questions: question → its answers; they stand at the top of the page.
        parts: figures, tables and remarks, in the order of the page.
    """

    questions: Mapping[str, Sequence[Answer]] = field(default_factory=dict)
    parts: Sequence[Figure | Table | Remark] = ()


def file_names(names: Sequence[str], prefix: str = "", taken: Sequence[str] = ()) -> dict[str, str]:
    """Return a file's name without its suffix for each name: another for each, whatever characters they have.

    Long names are cut, and no two differ in upper and lower case alone.

    Args:
        names: such as those of groups.
        prefix: what each begins with.
        taken: names that are not given.
    """
    chosen: dict[str, str] = {}
    used = {name.casefold() for name in taken}  # some file systems do not tell cases apart
    for name in names:
        stem = prefix + (re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip("-") or "chart")
        stem = stem[:_LONGEST_STEM]
        numbered = (stem, *(f"{stem}-{number}" for number in range(2, len(names) + len(used) + 2)))
        chosen[name] = next(candidate for candidate in numbered if candidate.casefold() not in used)
        used.add(chosen[name].casefold())
    return chosen


def legend_key(colour: str, dash: Sequence[int], x: float, y: float) -> str:
    """Return what a legend shows before a label, around a point of an SVG: a dot, for a dashed line a piece of it."""
    if not dash:
        return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{colour}"/>'
    lengths = " ".join(map(str, dash))
    return f'<path d="M{x - 8:g},{y:g}h17" stroke="{colour}" stroke-width="2" stroke-dasharray="{lengths}"/>'


def _size(drawing: str) -> tuple[float, float]:
    """Return the width and height of an SVG."""
    head = drawing[: drawing.index(">")]
    width, height = (re.search(rf'\b{side}="([\d.]+)', head) for side in ("width", "height"))
    assert width, head
    assert height, head
    return float(width[1]), float(height[1])
