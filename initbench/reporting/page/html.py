"""The page: one offline HTML file, made from the templates beside this module; its style and script stand in it."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from initbench.comparing.formatting import FILTERS
from initbench.reporting.page import shades
from initbench.reporting.page.contents import by_subject, head_of
from initbench.reporting.page.glossary import Glossary, words_of
from initbench.reporting.plain_data import KEPT, plain_data
from initbench.visible_text import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from initbench.reporting.answer import Answer
    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.charts.legend import Entry
    from initbench.reporting.heat_map import HeatColumn, HeatMap
    from initbench.reporting.page.contents import Contents

_MOST_ROWS = 200  # of a table in the page; its file has them all
_ROOMY, _MEDIUM, _NARROW = 5, 8, 20  # columns of a heat map


def render_html(contents: Contents) -> str:
    """Return the report as HTML; all text that comes from records is escaped.

    Args:
        contents: what it says.
    """
    return "".join(html_pieces(contents))


def html_pieces(contents: Contents) -> Iterator[str]:
    """Yield the report as HTML, piece by piece; whatever is invisible in texts is made visible.

    Args:
        contents: what it says.
    """
    environment = Environment(
        loader=PackageLoader("initbench.reporting.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    heat_map = contents.overview.heat_map
    environment.filters |= FILTERS | {
        "by_subject": by_subject,
        "drawn": _drawn,
        "explained": Glossary().explain,
        "head": lambda table: head_of(table, _MOST_ROWS),
        "step": lambda level: None if math.isnan(level) else shades.step(level),
        "as_json": as_json,
        "symbol": lambda entry: Markup(entry.symbol),  # noqa: S704  # ours
    }
    pieces = environment.get_template("page.html").generate(
        {name: getattr(contents, name) for name in contents.__dataclass_fields__},
        sentences=contents.overview.sentences,
        heat_map=heat_map if heat_map is not None and heat_map.rows and heat_map.columns else None,
        size=_size(heat_map),
        groups=_groups(heat_map),
        legend_of=lambda analysis: _legend(analysis, contents.key),
        words=words_of(_texts(contents)),
        shades=Markup(shades.rules()),  # noqa: S704  # colours alone
        dark_shades=Markup(shades.rules(dark=True)),  # noqa: S704
    )
    yield from (visible(piece, KEPT) for piece in pieces)


def as_json(data: Any) -> Markup:
    """Return data as JSON for a ``<script>`` element: no text in it can end the element or begin another.

    Args:
        data: plain.
    """
    text = json.dumps(plain_data(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704  # escaped


def _size(heat_map: HeatMap | None) -> str:
    """Return how much room a column has, as a class of the style."""
    columns = 0 if heat_map is None else len(heat_map.columns)
    limits = {"roomy": _ROOMY, "medium": _MEDIUM, "narrow": _NARROW}
    return next((name for name, most in limits.items() if columns <= most), "dense")


def _groups(heat_map: HeatMap | None) -> list[list[HeatColumn]]:
    """Return neighbours of one short name together where there are so many columns that it helps; else nothing."""
    if heat_map is None or len(heat_map.columns) <= _NARROW:
        return []
    groups: list[list[HeatColumn]] = []
    for column in heat_map.columns:
        if groups and groups[-1][0].short == column.short:
            groups[-1].append(column)
        else:
            groups.append([column])
    return groups if len(groups) < len(heat_map.columns) else []


def _legend(analysis: Answer, key: Sequence[str]) -> list[Entry]:
    """Return what colours, shapes and lines of an analysis's figures mean, treatments first and in the page's order."""
    found = {entry.label: entry for figure in analysis.figures for entry in figure.legend}
    treatments = [found[label] for label in key if label in found]
    return treatments + [entry for label, entry in found.items() if label not in key]


def _drawn(figure: Figure) -> Markup:
    """Return a figure's SVG with identifiers that no other figure of the page has."""
    prefix = re.sub(r"\W+", "-", figure.name)
    drawing = re.sub(r'\bid="', f'id="{prefix}-', figure.svg)
    drawing = re.sub(r"url\(#", f"url(#{prefix}-", drawing)
    # The drawings are ours and escape their own text.
    return Markup(re.sub(r'((?:xlink:)?href="#)', rf"\g<1>{prefix}-", drawing))  # noqa: S704


def _texts(contents: Contents) -> Iterator[str]:
    """Yield the texts in which a newcomer may meet a word."""
    yield from (contents.line, contents.methods, *contents.notices, *map(str, contents.overview.sentences))
    for analysis in contents.analyses:
        yield from (analysis.question, *map(str, analysis.sentences), *analysis.remarks)
        for table in analysis.shown_tables:
            yield from (table.title, table.note, *(column.heading for column in table.columns))
        for figure in analysis.figures:
            yield from (figure.title, figure.note)
    if contents.overview.heat_map is not None:
        yield from {cell.words for cell in contents.overview.heat_map.cells}
    yield "trial workload interval told apart " + contents.terms.treatment
