"""The report as Markdown, for documentation, an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from initbench.reporting.answer import Answer
from initbench.reporting.heat_map import HeatCell, HeatMap
from initbench.reporting.page.contents import Contents, by_subject, head_of
from initbench.reporting.plain_data import KEPT
from initbench.reporting.sentence import Sentence
from initbench.visible_text import visible

MARK = "<!-- Made by initbench report, which keeps the text above this line and replaces the text below. -->"
MARKS = re.compile(r"<!-- Made by initbench report\b.*?-->")
"""Any such line, including those of earlier versions."""
MOST_CHARACTERS = 60_000
"""Of a whole report, because GitHub limits a comment to 65,536."""
_MOST_SUBJECTS = 12
_ROWS = (30, 10, 3, 0)  # of each table; the first that fits


def render_markdown(contents: Contents, images: str | None = None) -> str:
    """Return the report as Markdown, with images from a folder if it is given."""
    return f"{head(contents)}\n{body(contents, images, MOST_CHARACTERS - len(head(contents)))}"


def head(contents: Contents) -> str:
    """Return the title and the question, which people may edit in a file that they keep."""
    question = "  \n".join(escaped(line) for line in contents.description.splitlines() if line.strip())
    return f"# {escaped(contents.title)}\n" + (f"\n{question}\n" if question else "")


def body(contents: Contents, images: str | None = None, most: int = MOST_CHARACTERS) -> str:
    """Return everything after title and question; tables are cut as far as `most` characters require, and say so."""
    for rows in _ROWS:
        text = "\n\n".join(_blocks(contents, images, rows)) + "\n"
        if len(text) <= most:
            break
    return text


def escaped(text: str) -> str:
    """Return text that Markdown shows literally, in a line or in a cell of a table."""
    return _begun(_inline(text))


def _inline(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|~&])", r"\\\1", visible(" ".join(text.splitlines()), KEPT))


def _begun(line: str) -> str:
    """Escape the beginning of a line if it would make a heading, an item of a list or a rule."""
    return re.sub(r"^(\d*)([#+=.)-][#=-]*)(?=\s|$)", r"\1\\\2", line)


def _blocks(contents: Contents, images: str | None, rows: int) -> Iterator[str]:
    yield escaped(contents.line)
    yield from (f"> **Note:** {escaped(notice)}" for notice in contents.notices)
    yield "## What happened"
    yield _bullets(contents.overview.sentences)
    heat_map = contents.overview.heat_map
    if heat_map is not None and heat_map.rows and heat_map.columns:
        yield _heat_map(heat_map, contents.terms.treatment)
    if contents.unequal:
        yield escaped(contents.unequal)
    for analysis in contents.analyses:
        yield from _analysis(analysis, images, rows)
    yield "## Conditions"
    if contents.differing:
        yield escaped(contents.differing)
    if facts := [f"- {escaped(name)}: {escaped(text)}" for name, text in contents.facts.items() if text]:
        yield "\n".join(facts)
    if contents.failures:
        number = len(contents.failures) + contents.failures_left
        yield f"{number} trial{'s' * (number != 1)} failed and {'are' if number != 1 else 'is'} in no statistic."
    if contents.methods:
        yield "## Methods"
        yield escaped(contents.methods)


def _analysis(analysis: Answer, images: str | None, rows: int) -> Iterator[str]:
    yield f"## {escaped(analysis.question)}"
    groups = list(by_subject(analysis.sentences).items())
    for subject, sentences in groups[:_MOST_SUBJECTS]:
        if subject:
            yield f"**{escaped(subject)}**"
        yield _bullets(sentences)
    if len(groups) > _MOST_SUBJECTS:
        more = len(groups) - _MOST_SUBJECTS
        yield f"{more} more {'are' if more > 1 else 'is'} on the page."
    if images is not None:
        for figure in analysis.main_figures:
            yield f"![{escaped(figure.alt)}]({quote(f'{images}/{figure.name}')}.svg)"
    yield from (escaped(remark) for remark in analysis.remarks)
    for table in analysis.main_tables:
        yield f"**{escaped(table.title)}**" + (f" {escaped(table.note)}" if table.note else "")
        cells, left = head_of(table, rows)
        if cells:
            heads = [column.heading for column in table.columns]
            yield _table(heads, cells, [column.is_text for column in table.columns])
        if left:
            yield f"{left:,} {'more ' * bool(cells)}row{'s' * (left != 1)} in {escaped(table.name)}.csv."


def _heat_map(heat_map: HeatMap, treatment: str) -> str:
    heads = [heat_map.metric or treatment]
    heads += [
        f"{column.short}{f' ({details})' if details else ''}"
        for column in heat_map.columns
        for details in [", ".join(filter(None, (column.detail, column.metric)))]
    ]
    trains, costs = any(row.trains for row in heat_map.rows), any(row.cost for row in heat_map.rows)
    heads += ["trains"] * trains + ["initialization costs"] * costs
    lines = [
        [
            f"{row.short}{f' ({row.detail})' if row.detail else ''}",
            *map(_cell, row.cells),
            *[row.trains] * trains,
            *[row.cost] * costs,
        ]
        for row in heat_map.rows
    ]
    if any(column.resolution for column in heat_map.columns):
        resolutions = [column.resolution or "–" for column in heat_map.columns]
        lines.append(["seeds can resolve", *resolutions, *[""] * (trains + costs)])
    legend = "; ".join(f"{sign} {meaning}" for sign, meaning in heat_map.marks)
    legend = f"\n\n{legend}." if legend else ""
    return _table(heads, lines, [True] + [False] * len(heat_map.columns) + [True] * (trains + costs)) + legend


def _cell(cell: HeatCell) -> str:
    further = ", ".join(filter(None, (cell.note, cell.spread)))
    return " ".join(filter(None, (cell.sign, cell.words, further and f"({further})")))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[bool]) -> str:
    rule = "".join(f" {'---' if is_left else '--:'} |" for is_left in left)
    lines = ["".join(f" {escaped(text)} |" for text in line) for line in (heads, *rows)]
    return "\n".join(f"|{line}" for line in (lines[0], rule, *lines[1:]))


def _bullets(sentences: Sequence[Sentence]) -> str:
    return "\n".join(f"- {_said(sentence)}" for sentence in sentences)


def _said(sentence: Sentence) -> str:
    """Return a sentence with names in bold, and in italics if it is open."""
    pieces = ((_inline(text), is_bold) for text, is_bold in sentence.parts)
    text = _begun("".join(f"**{piece}**" if is_bold else piece for piece, is_bold in pieces))
    return f"*{text}*" if sentence.is_open else text
