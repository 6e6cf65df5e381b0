"""The page: one offline HTML file made from the templates, including style and script."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from initbench.comparing.formatting import FILTERS
from initbench.reporting.answer import Answer
from initbench.reporting.charts.legend import Entry
from initbench.reporting.heat_map import MARKS, HeatColumn, HeatMap
from initbench.reporting.page import shades
from initbench.reporting.page.contents import Contents, by_subject, head_of, in_rows
from initbench.reporting.page.glossary import Glossary, words_of
from initbench.reporting.page.svg import drawn
from initbench.reporting.plain_data import KEPT, plain_data
from initbench.visible_text import visible

_MOST_ROWS = 200  # of a table in the page; its file has all
_ROOMY, _MEDIUM, _NARROW = 3, 8, 20  # columns of a heat map


def html_pieces(contents: Contents) -> Iterator[str]:
    """Yield the report as HTML, piece by piece; all texts of records and invisible characters are escaped."""
    heat_map = contents.overview.heat_map
    environment = _environment(contents.key)
    environment.filters["step"] = lambda level: None if math.isnan(level) else shades.step(level)
    pieces = environment.get_template("page.html").generate(
        {name: getattr(contents, name) for name in contents.__dataclass_fields__},
        sentences=contents.overview.sentences,
        heat_map=heat_map if heat_map is not None and heat_map.rows and heat_map.columns else None,
        size=_size(heat_map),
        marks=MARKS,
        groups=_groups(heat_map),
        words=words_of(_texts(contents)),
        shades=Markup(shades.rules()),  # noqa: S704  # colours alone
        dark_shades=Markup(shades.rules(dark=True)),  # noqa: S704
    )
    yield from (visible(piece, KEPT) for piece in pieces)


def render_model_page(title: str, line: str, answers: Sequence[Answer]) -> str:
    """Return the page of one model as HTML: a heading, a line of facts, and the answers, the first of them open."""
    template = _environment().get_template("model.html")
    return visible(template.render(title=title, line=line, answers=answers), KEPT)


def _environment(key: Sequence[str] = ()) -> Environment:
    """Return what templates need to draw answers; `key` are the treatments in the order of legends."""
    environment = Environment(
        loader=PackageLoader("initbench.reporting.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS | {
        "by_subject": by_subject,
        "drawn": drawn,
        "explained": Glossary().explain,
        "in_rows": in_rows,
        "head": lambda table: head_of(table, _MOST_ROWS),
        "as_json": as_json,
        "coded": _coded,
        "symbol": lambda entry: Markup(entry.symbol),  # noqa: S704  # ours
    }
    environment.globals["legend_of"] = lambda answer: _legend(answer, key)
    return environment


def as_json(data: Any) -> Markup:
    """Return plain data as JSON for a ``<script>`` element; no text in it can end the element or begin another."""
    text = json.dumps(plain_data(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704  # escaped


def _coded(trials: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table of all trials with most texts as indices of their column's ``texts``."""
    columns: list[Mapping[str, Any]] = []
    values: list[Sequence[Any]] = []
    for column, cells in zip(trials["columns"], zip(*trials["rows"], strict=True), strict=False):
        texts = list(dict.fromkeys(cells)) if column["kind"] == "text" else ()
        if 0 < 2 * len(texts) <= len(cells):
            index = {text: number for number, text in enumerate(texts)}
            columns.append(column | {"texts": texts})
            values.append([index[text] for text in cells])
        else:
            columns.append(column)
            values.append(cells)
    return {"columns": columns, "rows": list(zip(*values, strict=True))}


def _size(heat_map: HeatMap | None) -> str:
    """Return the CSS class for the width of a column."""
    columns = 0 if heat_map is None else len(heat_map.columns)
    limits = {"roomy": _ROOMY, "medium": _MEDIUM, "narrow": _NARROW}
    return next((name for name, most in limits.items() if columns <= most), "dense")


def _groups(heat_map: HeatMap | None) -> list[list[HeatColumn]]:
    """Return neighbours with the same short name in groups; empty if there are few columns or no such neighbours."""
    if heat_map is None or len(heat_map.columns) <= _NARROW:
        return []
    groups = [list(group) for _, group in groupby(heat_map.columns, key=lambda column: column.short)]
    return groups if len(groups) < len(heat_map.columns) else []


def _legend(analysis: Answer, key: Sequence[str]) -> list[Entry]:
    """Return the legend of an analysis's figures, beginning with the treatments in the page's order."""
    entries = {entry.label: entry for figure in analysis.figures for entry in figure.legend}
    treatments = [entries[label] for label in key if label in entries]
    return treatments + [entry for label, entry in entries.items() if label not in key]


def _texts(contents: Contents) -> Iterator[str]:
    """Yield the page's texts that may contain words of the glossary."""
    yield from (
        contents.line,
        contents.unequal,
        contents.methods,
        *contents.notices,
        *map(str, contents.overview.sentences),
    )
    for analysis in contents.analyses:
        yield from (analysis.question, *map(str, analysis.sentences), *analysis.remarks)
        for table in analysis.shown_tables:
            yield from (table.title, table.note, *(column.heading for column in table.columns))
        for figure in analysis.figures:
            yield from (figure.title, figure.note)
    if contents.overview.heat_map is not None:
        yield from {cell.words for cell in contents.overview.heat_map.cells}
    yield "trial workload interval difference found " + contents.terms.treatment
