"""Lines with bands: medians over seeds, and bands from the smallest to the largest."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.charts.legend import Entry, entries_of, kind_entries
from initbench.reporting.charts.panel import Axis, Specification, panel, raw, said, where
from initbench.reporting.charts.style import BAND, DIVERGED, LINE, THIN_DASH, THIN_LINE, styles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DASHED = ("train", "before", "best")  # kinds of lines, thin and dashed beside the solid ones of test, after and stable
_MOST_POINTS = 12  # of a line, that are marked and say something: a page of many lines stays small
_POINT, _TRIANGLE = 34, 70


class Point(NamedTuple):
    """A point of a line.

    Attributes:
        label: of the line: a treatment as the page names it.
        x: on the horizontal axis.
        value: in the unit of the vertical axis; not finite where the median diverged.
        words: what it says to who points at it or cannot see it.
        low: the smallest over seeds; NaN for no band.
        high: the largest.
        kind: of the line: empty, or such as ``train``.
    """

    label: str
    x: float
    value: float
    words: str
    low: float = math.nan
    high: float = math.nan
    kind: str = ""

    @property
    def has_band(self) -> bool:
        """Whether it has a band."""
        return math.isfinite(self.low) and math.isfinite(self.high)


def drawn_values(points: Iterable[Point]) -> list[float]:
    """Return all that is drawn on the vertical axis."""
    found = [point for point in points if math.isfinite(point.value)]
    return [point.value for point in found] + [end for p in found if p.has_band for end in (p.low, p.high)]


def band_panel(
    points: Sequence[Point],
    colours: Mapping[str, str],
    across: Axis,
    up: Axis,
    worst: Mapping[str, Any] | None = None,
    *,
    apart: bool = False,
    diverged: str = "diverged",
) -> Specification | None:
    """Return lines with bands; a line ends where the median diverged.

    On a logarithmic axis a value of 0 is a hollow mark at the lower edge.

    Args:
        points: in the order of their lines.
        colours: of all labels, as from `style.colours`.
        across: the horizontal axis.
        up: the vertical axis.
        worst: where the triangle of what diverged stands, at the first point that a line lacks; None for none.
        apart: whether every point that diverged has a triangle: each is a network of its own.
        diverged: what a triangle means.

    Returns:
        None where there is nothing to draw.
    """
    points = [point for point in points if not math.isnan(point.value)]
    shown = {point.label for point in points}
    assert shown <= set(colours), shown - set(colours)
    kinds = list(dict.fromkeys(point.kind for point in points))
    lines = {
        (name, kind): [p for p in points if (p.label, p.kind) == (name, kind)] for name in colours for kind in kinds
    }
    marks = [mark for line in lines.values() for mark in _marks(line, colours, log=up.log)]
    if not any("value" in mark for mark in marks):
        return None
    ended = [] if worst is None else [m for line in lines.values() for m in _ended(line, colours, apart=apart)]
    ended = _tell_apart(ended)
    marks += ended
    legend = entries_of(colours, shown) + kind_entries(kinds, DASHED)
    if ended:
        legend.append(Entry(diverged, shape=DIVERGED))
    if any("zero" in mark for mark in marks):
        legend.append(Entry("0", shape="hollow"))
    return panel(_layers(marks, across.channel("x"), up, worst), marks, legend)


def _layers(
    marks: list[dict[str, Any]], x: dict[str, Any], up: Axis, worst: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """Return the layers that have a mark: each costs time to draw."""
    y, line = up.up("value"), {"field": "line", "type": "nominal"}
    layers: list[dict[str, Any]] = []
    if any("high" in mark for mark in marks):
        layers.append(
            {
                "transform": where("high"),
                "mark": {"type": "area", "opacity": BAND, "aria": False},
                "encoding": {"x": x, "y": up.up("low"), "y2": {"field": "high"}, "fill": raw("colour"), "detail": line},
            }
        )
    layers.append(
        {
            "transform": where("value"),
            "mark": {"type": "line", "aria": False},
            "encoding": {
                "x": x,
                "y": y,
                "detail": line,
                "stroke": raw("colour"),
                "strokeDash": raw("dash"),
                "strokeWidth": raw("width", "quantitative"),
            },
        }
    )
    point = {"fill": raw("colour"), "shape": raw("shape"), "size": raw("size", "quantitative"), "description": said()}
    filled = {"type": "point", "filled": True, "opacity": 1}
    layers.append({"transform": where("words"), "mark": filled, "encoding": {"x": x, "y": y, **point}})
    if any("zero" in mark for mark in marks):
        hollow = {"type": "point", "filled": False, "strokeWidth": 1.6, "opacity": 1}
        encoding = {"x": x, "y": {"value": "height"}, **point, "stroke": point["fill"], "description": said("zero")}
        layers.append({"transform": where("zero"), "mark": hollow, "encoding": encoding | {"fill": {"value": None}}})
    if worst is not None and any("end" in mark for mark in marks):
        encoding = {"x": x, "y": dict(worst), **point, "description": said("end")}
        layers.append({"transform": where("end"), "mark": filled, "encoding": encoding})
    return layers


def _marks(line: list[Point], colours: Mapping[str, str], *, log: bool) -> list[dict[str, Any]]:
    """Return a line's points as data; what diverged is left out."""
    finite = [point for point in line if math.isfinite(point.value)]
    speaking = _spread(len(finite))
    marks: list[dict[str, Any]] = []
    for number, point in enumerate(finite):
        style, thin = styles(colours)[point.label], point.kind in DASHED
        symbol = {"colour": style.colour, "shape": style.shape, "size": _POINT / (2 if thin else 1)}
        if log and point.value <= 0:
            marks.append({"x": point.x, "zero": point.words, **symbol})
            continue
        mark = {
            "x": point.x,
            "value": point.value,
            "line": f"{point.kind} {point.label}",
            "colour": style.colour,
            "dash": list(THIN_DASH if thin else style.dash),
            "width": THIN_LINE if thin else LINE,
        }
        if point.has_band and (point.low > 0 or not log):
            mark |= {"low": point.low, "high": point.high}
        marks.append(mark | ({"words": point.words, **symbol} if number in speaking else {}))
    return marks


def _ended(line: list[Point], colours: Mapping[str, str], *, apart: bool) -> list[dict[str, Any]]:
    """Return the triangles of what diverged in a line."""
    diverged = [point for point in line if not math.isfinite(point.value)]
    return [
        {"x": point.x, "colour": colours[point.label], "shape": DIVERGED, "end": point.words}
        for point in (diverged if apart else diverged[:1])
    ]


def _spread(count: int) -> set[int]:
    """Return the numbers of at most `_MOST_POINTS` points, evenly spread, with the first and the last."""
    if count <= _MOST_POINTS:
        return set(range(count))
    return {round(i * (count - 1) / (_MOST_POINTS - 1)) for i in range(_MOST_POINTS)}


def _tell_apart(ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the triangles, one for each colour at a place, in sizes by which each is seen behind the next."""
    ended = list({(mark["x"], mark["colour"]): mark for mark in reversed(ended)}.values())[::-1]
    left = Counter(mark["x"] for mark in ended)
    for mark in ended:
        mark["size"] = _TRIANGLE * left[mark["x"]]
        left[mark["x"]] -= 1
    return ended
