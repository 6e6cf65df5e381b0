"""The overview as a chart: treatments × workloads, each cell with its text and a colour by how good it is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from initbench.reporting.charts.axis import Channel
from initbench.reporting.charts.chart import Specification, chart
from initbench.reporting.charts.legend import Entry
from initbench.reporting.charts.style import PAGE_INK, between, ink_on
from initbench.reporting.plain_data import plain_data

# Ends of the scale, in sRGB: white type on the dark end, black on the pale one, whichever has more contrast. One of the
# two has at least 4.58 on any colour, so that the cells can be read on a light page and on a dark one.
_PALE, _DARK = "#d6e9ef", "#0a627c"
_UNKNOWN = "#e8eaed"
_BAD, _BAD_GROUND = "#8f1f33", "#fae6e9"
_GREY, _NONE = "#8a93a0", "transparent"
_CELL, _ROW, _NARROW, _WIDTH = 112, 34, 30, 900  # px: cells as wide as the texts and this width allow
_STRIPES, _FEW_STRIPES, _MANY_CELLS = 7, 3, 200  # of a hatched cell; fewer if there are many cells
_NARROW_FROM = 5  # workloads: so many leave no room on a paper for "did not train" on one line
_MANY = 8  # workloads: the names of more are slanted
_CHARACTER = 6.6  # px of a name
_GAP = 0.03  # between cells, of a cell
_HALF_LINE = 0.11  # of a cell: a text of two lines begins so much higher
_CORNER = 0.09  # of a cell, from its left: the place of its cross


def heat_map(cells: pd.DataFrame) -> Specification:
    """Return a heat map, its rows and columns in the order of the frame; darker is better.

    Cells do not differ by colour alone: what did not train is hatched, what diverged has a cross and a frame, what
    failed has a dashed frame, and what cannot run or is missing has only its text.

    Args:
        cells: ``treatment`` and ``workload`` (as they are displayed), ``text``, ``note`` (small, below it), ``level``
            (from 0, the worst, to 1, the best of its workload; NaN if unknown) and ``state``: ``trained``,
            ``untrained``, ``diverged``, ``incompatible``, ``failed``, ``missing`` or ``measured``.
    """
    rows, columns = list(dict.fromkeys(cells["treatment"])), list(dict.fromkeys(cells["workload"]))
    longest = max((len(text) for text in cells["text"] if isinstance(text, str)), default=0)
    width = max(_NARROW, min(_CELL, _WIDTH / max(len(columns), 1), max(60, 8 * longest + 28)))
    look = {"narrow": len(columns) >= _NARROW_FROM, "small": width < 2 * _NARROW}
    stripes = _STRIPES if len(cells) <= _MANY_CELLS else _FEW_STRIPES
    marks = [
        mark
        for cell in cells.to_dict("records")
        for mark in _marks(cell, rows.index(cell["treatment"]), columns.index(cell["workload"]), stripes, **look)
    ]
    slanted = len(columns) > _MANY or max((len(name) for name in columns), default=0) * _CHARACTER > width
    turned = {"labelAngle": -40, "labelAlign": "left", "labelBaseline": "middle"} if slanted else {"labelAngle": 0}
    x, y = _names(columns, {"orient": "top", **turned}), _names(rows, {}, reverse=True)
    legend = [Entry("best of its workload", colour_of(1.0), "square"), Entry("worst", colour_of(0.0), "square")]
    specification = chart("heat_map", marks, x, y, legend, width=width * len(columns), height=_ROW * len(rows))
    return specification | {"view": {"stroke": None}}


def colour_of(level: float) -> str:
    """Return the ground of a cell, as ``#rrggbb``: from 0, pale, to 1, dark; NaN is grey."""
    if math.isnan(level):
        return _UNKNOWN
    return between((_PALE, _DARK), min(max(level, 0.0), 1.0))


def _marks(
    cell: Mapping[Any, Any], row: int, column: int, stripes: int, *, narrow: bool, small: bool
) -> list[dict[str, Any]]:
    """Return what is drawn of a cell, in cells from the upper left corner; a narrow one has words on two lines."""
    state = str(cell["state"])
    text, note = (str(cell[key]) if isinstance(cell[key], str) else "" for key in ("text", "note"))
    is_measured = state in {"trained", "measured"}
    ground, ink, frame = _NONE, PAGE_INK, _GREY if state == "untrained" else _NONE
    if is_measured:
        ground = colour_of(float(cell["level"]))
        ink = ink_on(ground)
    elif state == "diverged":
        ground, ink, frame = _BAD_GROUND, _BAD, _BAD
    box: dict[str, Any] = {
        "left": column + _GAP,
        "right": column + 1 - _GAP,
        "top": row + _GAP,
        "bottom": row + 1 - _GAP,
    }
    spoken = ", ".join(part for part in (f"{cell['treatment']} on {cell['workload']}: {text or state}", note) if part)
    marks = [box | {"ground": ground, "frame": frame, "words": spoken}]
    middle: dict[str, Any] = {"x": column + 0.5, "y": row + (0.38 if note else 0.5), "ink": ink}
    bold, plain = ("small_bold", "small") if small else ("bold", "plain")
    if text and narrow and ground == _NONE and " " in text:
        marks.append(middle | {plain: "\n".join(text.rsplit(" ", 1)), "y": middle["y"] - _HALF_LINE})
    elif text:
        marks.append(middle | {bold if is_measured else plain: text})
    if note and not small:
        marks.append(middle | {"y": row + 0.74, "small": note.removesuffix(" seeds") if narrow else note})
    if state == "failed":
        marks.append(box | {"dashed": _GREY})
    if state == "diverged":
        marks.append({"x": column + _CORNER, "y": row + 0.17, "cross": _BAD, "size": 20 if small else 50})
    if state == "untrained":
        marks += _hatching(box, stripes, (0.2, 0.9 if note else 0.8) if note or narrow else (0.3, 0.7))
    return marks


def _hatching(box: Mapping[str, float], stripes: int, free: tuple[float, float]) -> list[dict[str, float]]:
    """Return parallel lines across a cell, from its lower left to its upper right, cut at its edges.

    Args:
        box: left, right, top and bottom of the cell.
        stripes: the number of lines that begin at an edge.
        free: the part of its height, from 0 to 1, that is left to the words.
    """
    lines = []
    left, top, across, down = box["left"], box["top"], box["right"] - box["left"], box["bottom"] - box["top"]
    for number in range(1, 2 * stripes):
        total = number / stripes  # x + y of a line in the unit square of the cell
        low, high = max(0.0, total - 1), min(1.0, total)
        for begin, end in ((low, min(high, total - free[1])), (max(low, total - free[0]), high)):
            if begin < end:
                line = {"fromX": left + begin * across, "toX": left + end * across}
                lines.append(line | {"fromY": top + (total - begin) * down, "toY": top + (total - end) * down})
    return lines


def _names(names: list[str], options: dict[str, Any], **scale: Any) -> Channel:
    """Return an axis with a name in the middle of each cell."""
    labels = {
        "values": [i + 0.5 for i in range(len(names))],
        "labelExpr": f"{json.dumps(plain_data(names))}[floor(datum.value)]",
    }
    hidden = dict.fromkeys(("grid", "ticks", "domain", "labelOverlap"), False)
    scale |= {"domain": [0, max(len(names), 1)], "nice": False, "zero": False}
    axis = {**labels, **hidden, "labelPadding": 6, **options}
    return {"type": "quantitative", "title": None, "scale": scale, "axis": axis}
