"""The overview as a chart: treatments × workloads, each cell with its text and a colour by how good it is."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.charts.legend import Entry
from initbench.reporting.charts.panel import Specification, panel, raw, said, where
from initbench.reporting.plain_data import plain_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

# Ends of the scale, in sRGB: white type on the dark end, black on the pale one, whichever has more contrast; one of the
# two has at least 4.58 on any colour, so that the cells are read on a light page and on a dark one.
_PALE, _DARK = (214, 233, 239), (10, 98, 124)
_UNKNOWN = "#e8eaed"
_BAD, _BAD_GROUND = "#8f1f33", "#fae6e9"
_GREY = "#8a93a0"
_CELL, _ROW, _NARROW, _WIDTH = 112, 34, 30, 900  # px: cells as wide as the texts and this width allow
_STRIPES, _FEW_STRIPES, _MANY_CELLS = 7, 3, 200  # of a hatched cell; fewer where there are many cells
_NARROW_FROM = 5  # workloads, from which on a paper has no room for "did not train" on one line
_MANY = 8  # workloads, from which on their names are slanted
_CHARACTER = 6.6  # px of a name
_GAP = 0.03  # between cells, of a cell
_HALF_LINE = 0.11  # of a cell: a text of two lines begins so much higher
_CORNER = 0.09  # of a cell, from its left: where its cross stands


def heat_map(
    cells: pd.DataFrame,
    *,
    treatments: Sequence[str] = (),
    workloads: Sequence[str] = (),
    ends: tuple[str, str] = ("best of its workload", "worst"),
) -> Specification:
    """Return a heat map; darker is better.

    Not by colour alone: what did not train is hatched, what diverged has a cross and a frame, what failed has a dashed
    frame, and what cannot run or is missing is empty but for its text.

    Args:
        cells: ``treatment`` and ``workload`` (as they are displayed), ``text``, ``note`` (small, below it), ``level``
            (from 0, the worst, to 1, the best of its workload; NaN where not known) and ``state``: ``trained``,
            ``untrained``, ``diverged``, ``incompatible``, ``failed``, ``missing`` or ``measured``.
        treatments: the rows' order; that of the frame by default.
        workloads: the columns' order; that of the frame by default.
        ends: what the darkest and the palest ground mean.
    """
    rows = list(treatments) or list(dict.fromkeys(cells["treatment"]))
    columns = list(workloads) or list(dict.fromkeys(cells["workload"]))
    longest = max((len(text) for text in cells["text"] if isinstance(text, str)), default=0)
    width = max(_NARROW, min(_CELL, _WIDTH / max(len(columns), 1), max(60, 8 * longest + 28)))
    narrow = len(columns) >= _NARROW_FROM
    stripes = _STRIPES if len(cells) <= _MANY_CELLS else _FEW_STRIPES
    marks = [
        mark
        for cell in cells.to_dict("records")
        for place in [(rows.index(cell["treatment"]), columns.index(cell["workload"]))]
        for mark in _marks({str(key): value for key, value in cell.items()}, *place, stripes, narrow=narrow)
    ]
    slanted = len(columns) > _MANY or max((len(name) for name in columns), default=0) * _CHARACTER > width
    layers = _layers(_axes(columns, rows, slanted=slanted), small=width < 2 * _NARROW)
    legend = [Entry(ends[0], colour_of(1.0), "square"), Entry(ends[1], colour_of(0.0), "square")]
    size = {"width": width * len(columns), "height": _ROW * len(rows)}
    return panel(layers, marks, legend, **size) | {"view": {"stroke": None}}


def colour_of(level: float) -> str:
    """Return the ground of a cell, as ``#rrggbb``: darker for better.

    Args:
        level: from 0 to 1; NaN for what has no place between worst and best.
    """
    if math.isnan(level):
        return _UNKNOWN
    share = min(max(level, 0.0), 1.0)
    return "#" + "".join(f"{round(pale + share * (dark - pale)):02x}" for pale, dark in zip(_PALE, _DARK, strict=True))


def ink_on(ground: str) -> str:
    """Return white or black, whichever has more contrast on a colour (WCAG 2)."""
    channels = [int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#ffffff" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "#000000"


def _marks(cell: Mapping[str, Any], row: int, column: int, stripes: int, *, narrow: bool) -> list[dict[str, Any]]:
    """Return what is drawn in a cell, in cells from the upper left corner; where it is narrow, words on two lines."""
    state, level = str(cell["state"]), float(cell["level"])
    text, note = (str(cell[key]) if isinstance(cell[key], str) else "" for key in ("text", "note"))
    ground, ink, frame = None, "currentColor", None
    if state in {"trained", "measured"}:
        ground = colour_of(level)
        ink = ink_on(ground)
    if state == "untrained":
        frame = _GREY
    if state == "diverged":
        ground, ink, frame = _BAD_GROUND, _BAD, _BAD
    left, right, top, bottom = column + _GAP, column + 1 - _GAP, row + _GAP, row + 1 - _GAP
    spoken = ", ".join(part for part in (f"{cell['treatment']} on {cell['workload']}: {text or state}", note) if part)
    box = {"left": left, "right": right, "top": top, "bottom": bottom, "words": spoken}
    marks = [box | {"ground": ground or "transparent", "frame": frame or "transparent"}]
    middle = {"x": column + 0.5, "y": row + (0.38 if note else 0.5)}
    if text:
        mark = middle | {"text": text, "ink": ink, "bold": state in {"trained", "measured"}}
        if narrow and ground is None and " " in text:
            mark |= {"text": "\n".join(text.rsplit(" ", 1)), "y": middle["y"] - _HALF_LINE}
        marks.append(mark)
    if note:
        written = note.removesuffix(" seeds") if narrow else note
        marks.append(middle | {"y": row + 0.74, "note": written, "ink": ink})
    if state == "failed":
        marks.append({"left": left, "right": right, "top": top, "bottom": bottom, "dashed": True})
    if state == "diverged":
        marks.append({"x": column + _CORNER, "y": row + 0.17, "cross": True})
    if state == "untrained":
        marks += _hatching(
            (left, right, top, bottom), stripes, free=(0.2, 0.9 if note else 0.8) if note or narrow else (0.3, 0.7)
        )
    return marks


def _hatching(box: tuple[float, float, float, float], stripes: int, free: tuple[float, float]) -> list[dict[str, Any]]:
    """Return parallel lines across a cell, from its lower left to its upper right, cut at its edges.

    Args:
        box: left, right, top and bottom of the cell.
        stripes: how many lines begin at an edge.
        free: from where to where its height is left to the words, of 1.
    """
    left, right, top, bottom = box
    across, down = right - left, bottom - top
    lines = []
    for number in range(1, 2 * stripes):
        # x + y = sum in the unit square of the cell.
        total = number / stripes
        low, high = max(0.0, total - 1), min(1.0, total)
        for begin, end in ((low, min(high, total - free[1])), (max(low, total - free[0]), high)):
            if begin < end:
                lines.append(
                    {
                        "fromX": left + begin * across,
                        "toX": left + end * across,
                        "fromY": top + (total - begin) * down,
                        "toY": top + (total - end) * down,
                    }
                )
    return lines


def _axes(columns: list[str], rows: list[str], *, slanted: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    def axis(names: list[str], options: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "quantitative",
            "title": None,
            "scale": {"domain": [0, max(len(names), 1)], "nice": False, "zero": False},
            "axis": {
                "values": [i + 0.5 for i in range(len(names))],
                "labelExpr": f"{json.dumps(plain_data(names))}[floor(datum.value)]",
                "grid": False,
                "ticks": False,
                "domain": False,
                "labelOverlap": False,
                "labelPadding": 6,
                **options,
            },
        }

    turned = {"labelAngle": -40, "labelAlign": "left", "labelBaseline": "middle"} if slanted else {"labelAngle": 0}
    x = axis(columns, {"orient": "top", **turned})
    y = axis(rows, {})
    y["scale"] |= {"reverse": True}
    return x, y


def _layers(axes: tuple[dict[str, Any], dict[str, Any]], *, small: bool) -> list[dict[str, Any]]:
    def at(x: str, y: str) -> dict[str, Any]:
        return {"x": {"field": x, **axes[0]}, "y": {"field": y, **axes[1]}}

    def between(x: str, x2: str, y: str, y2: str) -> dict[str, Any]:
        return at(x, y) | {"x2": {"field": x2}, "y2": {"field": y2}}

    box = between("left", "right", "top", "bottom") | {
        "fill": raw("ground"),
        "stroke": raw("frame"),
        "description": said(),
    }
    text = {"type": "text", "style": "note" if small else "text", "lineBreak": "\n", "aria": False}
    dashed = {"type": "rect", "fill": None, "stroke": _GREY, "strokeWidth": 1.2, "strokeDash": [4, 3], "aria": False}
    layers: list[dict[str, Any]] = [
        {
            "transform": where("ground"),
            "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 1.2},
            "encoding": box,
        },
        {"transform": where("dashed"), "mark": dashed, "encoding": between("left", "right", "top", "bottom")},
        {
            "transform": where("fromX"),
            "mark": {"type": "rule", "strokeWidth": 1, "stroke": "currentColor", "opacity": 0.22, "aria": False},
            "encoding": between("fromX", "toX", "fromY", "toY"),
        },
    ]
    layers += [
        {
            "transform": [{"filter": f"isValid(datum.text) && datum.bold === {json.dumps(bold)}"}],
            "mark": text | ({"fontWeight": "bold"} if bold else {}),
            "encoding": at("x", "y") | {"text": {"field": "text", "type": "nominal"}, "color": raw("ink")},
        }
        for bold in (True, False)
    ]
    if not small:
        layers.append(
            {
                "transform": where("note"),
                "mark": text | {"style": "note"},
                "encoding": at("x", "y") | {"text": {"field": "note", "type": "nominal"}, "color": raw("ink")},
            }
        )
    cross = {"type": "point", "shape": "cross", "angle": 45, "filled": True, "fill": _BAD, "opacity": 1, "aria": False}
    layers.append(
        {"transform": where("cross"), "mark": cross | {"size": 20 if small else 50}, "encoding": at("x", "y")}
    )
    return layers
