"""Figures and tables: what a section of a report is made of, and what is written beside the page."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import escape

from initbench.reporting.formatting import FILTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

MARKER = 'data-made-by="initbench report"'
_MARGIN, _LINE, _TITLE = 12, 18, 30
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

    def file(self, legend: Mapping[str, str], text: str = "#1c2430", ground: str | None = "#fff") -> str:
        """Return the drawing as a file of its own: with title and legend, in fixed colours.

        Args:
            legend: label → colour.
            text: the colour of text and axes.
            ground: the colour of the ground; None for a transparent one.
        """
        width, height = _size(self.drawing)
        widest = max([width, *(30 + 7.2 * len(label) for label in legend), 7.6 * len(self.title)])
        outer_width = round(widest + 2 * _MARGIN)
        outer_height = round(_TITLE + height + _LINE * len(legend) + 2 * _MARGIN)
        place = f'x="{_MARGIN}" y="{_MARGIN + _TITLE}" '
        lines = [
            f'<circle cx="{_MARGIN + 8}" cy="{y - 4:g}" r="5" fill="{colour}"/>'
            f'<text x="{_MARGIN + 20}" y="{y:g}" font-size="12">{escape(label)}</text>'
            for i, (label, colour) in enumerate(legend.items())
            for y in [_MARGIN + _TITLE + height + _LINE * (i + 0.8)]
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {MARKER} role="img" width="{outer_width}" '
            f'height="{outer_height}" viewBox="0 0 {outer_width} {outer_height}" color="{text}" fill="{text}" '
            f'font-family="sans-serif"><title>{escape(self.title)}</title><desc>{escape(self.alt)}</desc>'
            + (f'<rect width="100%" height="100%" fill="{ground}"/>' if ground else "")
            + f'<text x="{_MARGIN}" y="{_MARGIN + 14}" font-size="14">{escape(self.title)}</text>'
            + self.drawing.replace("<svg ", f"<svg {place}", 1).replace("currentColor", text)
            + "".join(lines)
            + "</svg>\n"
        )


class Column(NamedTuple):
    """A column of a table as the page shows it.

    Attributes:
        heading: its lines.
        form: the name of the `formatting.FILTERS` that writes its values.
        value: the frame's column.
        low: that of the lower end of an interval, which then follows in parentheses; empty for none.
        high: that of the upper end.
    """

    heading: str
    form: str
    value: str
    low: str = ""
    high: str = ""

    def cell(self, row: Mapping[str, Any]) -> str:
        """Return what stands in a row: ``+1.30 (+0.40 to +2.20)``."""
        value = FILTERS[self.form](row[self.value])
        if not self.low or math.isnan(row[self.low]):
            return value
        return f"{value} ({FILTERS[self.form](row[self.low])} to {FILTERS[self.form](row[self.high])})"


@dataclass(frozen=True)
class Table:
    """A table: shown in the page, and written whole as ``<name>.csv`` beside it.

    Attributes:
        name: unique in a report.
        title: what stands above it.
        frame: its rows; fractions are fractions.
        columns: what the page shows of them.
        note: what stands below the title, may be empty.
    """

    name: str
    title: str
    frame: pd.DataFrame
    columns: Sequence[Column] = ()
    note: str = ""

    @property
    def cells(self) -> list[list[str]]:
        """The cells as the page shows them, by row."""
        rows = [{str(key): value for key, value in row.items()} for row in self.frame.to_dict("records")]
        return [[column.cell(row) for column in self.columns] for row in rows]


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

    Args:
        names: such as those of groups.
        prefix: what each begins with.
        taken: names that are not given.
    """
    chosen: dict[str, str] = {}
    used = set(taken)
    for name in names:
        stem = prefix + (re.sub(r"[^\w.=-]+", "-", name, flags=re.ASCII).strip("-") or "chart")
        numbered = (stem, *(f"{stem}-{number}" for number in range(2, len(names) + len(used) + 2)))
        chosen[name] = next(candidate for candidate in numbered if candidate not in used)
        used.add(chosen[name])
    return chosen


def _size(drawing: str) -> tuple[float, float]:
    """Return the width and height of an SVG."""
    head = drawing[: drawing.index(">")]
    width, height = (re.search(rf'\b{side}="([\d.]+)', head) for side in ("width", "height"))
    assert width, head
    assert height, head
    return float(width[1]), float(height[1])
