"""Test error by step, by compute and by depth: one SVG panel per group, one line per initializer."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import altair as alt

from initbench.reporting.charts import MARKS, drawn, percent_axis, stroke_dash
from initbench.reporting.formatting import percent

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pandas as pd

_TRIANGLE = 70


def line_panel(curves: pd.DataFrame, x: str, title: str, colours: Mapping[str, str]) -> str | None:
    """Return one group's lines as SVG: the median over the seeds, and a band from the smallest to the largest.

    A line ends where the median is +∞, and a triangle at the upper edge stands at the next point; there is no band
    where a seed has diverged.

    Args:
        curves: one group's rows of `curves.training_curves`, or one family's of `depth.depth_curves`.
        x: the horizontal axis' column.
        title: of the horizontal axis.
        colours: of all initializers, as from `charts.colours`.

    Returns:
        None where there is nothing to draw.
    """
    rows = curves.dropna(subset=[x]).to_dict("records")
    finite = [row for row in rows if math.isfinite(row["test_error_median"])]
    if not finite:
        return None
    bounded = [row for row in rows if math.isfinite(row["test_error_largest"])]
    largest = 100 * max(
        *(row["test_error_median"] for row in finite), *(row["test_error_largest"] for row in bounded), 0
    )
    places = [row[x] for row in rows]
    domain = [min(places), max(places)] if x == "depth" else [0, max(places)]
    axis = alt.Axis(tickCount=5, values=sorted(set(places)) if x == "depth" else alt.Undefined)
    across = alt.X("x:Q", title=title, scale=alt.Scale(domain=domain, nice=False, padding=10), axis=axis)
    names = list(colours)
    shown = {row["initializer"] for row in rows}
    paint = alt.Scale(domain=names, range=list(colours.values()))
    up = percent_axis(largest)
    base = alt.Chart(alt.NamedData(MARKS)).encode(x=across)
    stroke = alt.Stroke("initializer:N", scale=paint, legend=None)
    fill = alt.Fill("initializer:N", scale=paint, legend=None)
    layers = [
        base.transform_filter("isValid(datum.high)")
        .mark_area(opacity=0.14, aria=False)
        .encode(y=percent_axis(largest, "low"), y2="high:Q", fill=fill),
        base.transform_filter("isValid(datum.percent)")
        .mark_line(strokeWidth=2, aria=False)
        .encode(y=up, stroke=stroke, **stroke_dash(colours)),
        base.transform_filter("isValid(datum.percent)")
        .mark_point(size=70 if x == "depth" else 24, filled=True, opacity=1)
        .encode(y=up, fill=fill, description="words:N"),
        base.transform_filter("datum.ended")
        .mark_point(shape="triangle-up", filled=True, opacity=1)
        .encode(y=alt.value(0), fill=fill, size=alt.Size("size:Q", scale=None), description="words:N"),
    ]
    marks = [mark for name in names if name in shown for mark in _marks(rows, name, x)]
    _tell_apart([mark for mark in marks if mark.get("ended")])
    return drawn(alt.layer(*layers), marks)


def _tell_apart(ended: list[dict[str, Any]]) -> None:
    """Give the triangles at one place sizes by which each is seen behind the next."""
    left = Counter(mark["x"] for mark in ended)
    for mark in ended:
        mark["size"] = _TRIANGLE * left[mark["x"]]
        left[mark["x"]] -= 1


def _marks(rows: Sequence[Mapping[Hashable, Any]], initializer: str, x: str) -> list[dict[str, Any]]:
    """Return one initializer's points as data of the chart; what is not finite is left out."""
    marks: list[dict[str, Any]] = []
    ended = False
    for row in rows:
        if row["initializer"] != initializer:
            continue
        mark = {"x": row[x], "initializer": initializer, "words": words(row, x)}
        if not math.isfinite(row["test_error_median"]):
            # Where a line ends is marked once; each depth is a network of its own.
            marks.append(mark | {"ended": x == "depth" or not ended})
            ended = True
            continue
        mark["percent"] = 100 * row["test_error_median"]
        if math.isfinite(row["test_error_largest"]):
            mark |= {"low": 100 * row["test_error_smallest"], "high": 100 * row["test_error_largest"]}
        marks.append(mark)
    return marks


def words(row: Mapping[Hashable, Any], x: str) -> str:
    """Return what a point says: ``kaiming, depth 28: 16.40 % (16.10 % to 16.80 %), 3 seeds``."""
    median, largest = row["test_error_median"], row["test_error_largest"]
    value = percent(median) if math.isfinite(median) else "diverged"
    if row["seeds"] > 1 and math.isfinite(largest):
        value += f" ({percent(row['test_error_smallest'])} to {percent(largest)})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    diverged = f", {row['diverged']} diverged" if row["diverged"] else ""
    return f"{row['initializer']}, {x} {row[x]:,.0f}: {value}, {seeds}{diverged}"
