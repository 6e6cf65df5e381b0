r"""The heat map and the main tables as LaTeX, for a paper; the only package is booktabs.

Bold marks the best value of a column if tests distinguish it from every other value (`HeatCell.is_told_apart`). A
dagger marks the best value otherwise, and values that tests do not distinguish from it. Each caption says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from initbench.comparing.formatting import capitalized
from initbench.reporting.heat_map import HeatCell, HeatMap
from initbench.reporting.page.contents import Contents, head_of
from initbench.reporting.plain_data import KEPT
from initbench.reporting.tables import Table
from initbench.visible_text import visible

_MOST_ROWS = 40
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\N{NO-BREAK SPACE}": "~",
    "–": "--",
    "’": "'",
    "…": r"\dots{}",
    "●": r"$\bullet$",
    "○": r"$\circ$",
    "▾": r"$\triangledown$",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "−": "$-$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    "ρ": r"$\rho$",
    "ε": r"$\varepsilon$",
    "σ": r"$\sigma$",
    "β": r"$\beta$",
    "τ": r"$\tau$",
    "Δ": r"$\Delta$",
} | {sign: rf"\{sign}" for sign in "{}$&#_%"}
_SPECIAL |= {high: f"$^{low}$" for high, low in zip("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789", strict=True)}
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))


def render_latex(contents: Contents) -> str:
    """Return the tables of a report.

    They are the medians of every treatment on every workload, the means with their intervals if there are any, and the
    main tables of every analysis.
    """
    return "\n".join([f"% {_one_line(contents.title)}", r"% \usepackage{booktabs}", *_tables(contents)])


def escaped(text: str) -> str:
    """Return text that LaTeX prints literally; letters that its fonts lack are unchanged."""
    return _PATTERN.sub(lambda match: _SPECIAL[match[0]], _one_line(text))


def _tables(contents: Contents) -> Iterator[str]:
    heat_map = contents.overview.heat_map
    if heat_map is not None and heat_map.rows and heat_map.columns:
        yield _heat_map(contents, heat_map, means=False)
        if any(cell.mean for cell in heat_map.cells):
            yield _heat_map(contents, heat_map, means=True)
    for analysis in contents.analyses:
        for table in analysis.main_tables:
            yield _analysis_table(table)


def _heat_map(contents: Contents, heat_map: HeatMap, *, means: bool) -> str:
    heads = [contents.terms.treatment, *(column.short for column in heat_map.columns)]
    details = [", ".join(filter(None, (column.detail, column.metric))) for column in heat_map.columns]
    rows = [
        [escaped(f"{row.short}{f' ({row.detail})' if row.detail else ''}"), *(_cell(cell, means) for cell in row.cells)]
        for row in heat_map.rows
    ]
    metric = capitalized(heat_map.metric or "outcome, median of seeds")
    if means:
        metric = f"{metric.removesuffix(', median of seeds')}, mean over seeds with its 95 % interval"
    caption = escaped(f"{metric}.")
    if any(cell.is_told_apart for cell in heat_map.cells):
        caption += " Bold: the best, with a difference found from every other one."
    if any(cell.is_best and not cell.is_told_apart for cell in heat_map.cells):
        caption += r" $\dagger$: the best, but not with a difference found from every other one."
    lines = [[escaped(head) for head in heads]] + ([["", *map(escaped, details)]] if any(details) else [])
    label = f"{contents.title}-{'means' if means else 'medians'}"
    return _float(caption, label, "l" + "r" * len(heat_map.columns), lines, rows)


def _cell(cell: HeatCell, means: bool) -> str:
    value = escaped(cell.mean if means and cell.mean else cell.words)
    if means and not cell.mean and cell.words == cell.text:
        value = "--"  # no mean of a single seed, or if one diverged
    if cell.is_told_apart:
        value = rf"\textbf{{{value}}}"
    elif cell.is_best and value != "--":
        value += r"$^\dagger$"
    return value + (f" ({escaped(cell.note)})" if cell.note else "")


def _analysis_table(table: Table) -> str:
    cells, left = head_of(table, _MOST_ROWS)
    heads = [[escaped(column.heading) for column in table.columns]]
    columns = "".join("l" if column.is_text else "r" for column in table.columns)
    caption = escaped(f"{table.title}. {table.note}".strip())
    text = _float(caption, table.name, columns, heads, [[escaped(text) for text in row] for row in cells])
    return text + (f"% {left} more rows are in {_one_line(table.name)}.csv.\n" if left else "")


def _float(
    caption: str, label: str, columns: str, heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table whose captions and cells are LaTeX."""
    lines = [
        "",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{re.sub('[^A-Za-z0-9]+', '-', label).strip('-')}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *(" & ".join(line) + r" \\" for line in heads),
        r"\midrule",
        # LaTeX would read a [ at the beginning of a row as the argument of the line break before it.
        *(("{}" if row and row[0].startswith("[") else "") + " & ".join(row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return visible(" ".join(text.splitlines()), KEPT)
