"""Tables as CSV that a spreadsheet may open: it takes no text in them for a formula."""

from __future__ import annotations

import re
from typing import Any, TextIO

import pandas as pd

from initbench.visible_text import visible

_FORMULA = re.compile(r"[=+\-@\t\r\n]")  # how it begins: OWASP, "CSV Injection"
# A number, or one with words behind it, such as "-1.4 points": without an operator it is no formula.
_NUMBER = re.compile(r"[+-](?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)(?: [^=+*/^&<>@|!]*)?")


def write_csv(frame: pd.DataFrame, file: TextIO) -> None:
    """Write a table without its index.

    What is invisible in texts is made visible. A text that a spreadsheet would take for a formula gets an apostrophe in
    front.

    Args:
        frame: with any names and values.
        file: that is open to be written.
    """
    frame = frame.set_axis([_cell(name) for name in frame.columns], axis="columns")
    for i in range(len(frame.columns)):
        column = frame.iloc[:, i]
        if pd.api.types.is_numeric_dtype(column):
            continue
        cells = {text: _cell(text) for text in {value for value in column if isinstance(value, str)}}
        if any(text != cell for text, cell in cells.items()):
            values = [cells[value] if isinstance(value, str) else value for value in column]
            frame.isetitem(i, values)
    frame.to_csv(file, index=False)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return ("'" if is_formula else "") + visible(value, "\n")
