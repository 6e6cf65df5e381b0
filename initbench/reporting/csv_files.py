"""Tables as CSV files that a spreadsheet can open safely, because no text in them is a formula."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TextIO

import pandas as pd

from initbench.visible_text import visible

_FORMULA = re.compile(r"[=+\-@\t\r\n]")  # at its beginning: OWASP, "CSV Injection"
# A number, with words after it or not, such as "-1.4 points", is no formula if it has no operator.
_NUMBER = re.compile(r"[+-](?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?: [^=+*/^&<>@|!]*)?")
_QUOTED = re.compile(r'[,"\n]')
_ROWS = 10_000  # at once, for the sake of memory


def write_csv(frame: pd.DataFrame, file: TextIO) -> None:
    """Write a table without its index; invisible characters are escaped, and an apostrophe precedes formulas.

    The text is that of `DataFrame.to_csv`, which takes twice as long for numbers and categories.
    """
    file.write(",".join(map(_text, frame.columns)) + "\n")
    columns = [_cells(column) for _, column in frame.items()]
    for start in range(0, len(frame), _ROWS):
        rows = zip(*(cells(slice(start, start + _ROWS)) for cells in columns), strict=True)
        file.writelines(f"{line}\n" for line in map(",".join, rows))


def _cells(column: pd.Series[Any]) -> Callable[[slice], list[str]]:
    """Return a function from rows to the texts of a column; the texts of categories are made once."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return lambda rows: _texts(column.iloc[rows])
    texts = [*map(_text, column.cat.categories), ""]  # the code of a missing value is -1
    codes = column.cat.codes
    return lambda rows: [texts[code] for code in codes.iloc[rows].tolist()]


def _texts(column: pd.Series[Any]) -> list[str]:
    values: list[Any] = column.tolist()
    known = {value: _text(value) for value in {value for value in values if isinstance(value, str)}}
    cells = (
        [known[value] if isinstance(value, str) else str(value) for value in values] if known else [*map(str, values)]
    )
    if column.hasnans:
        return ["" if is_missing else cell for cell, is_missing in zip(cells, column.isna(), strict=True)]
    return cells


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return str(value)
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    text = ("'" if is_formula else "") + visible(value, "\n")
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
