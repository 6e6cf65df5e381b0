"""Test error by step, by compute and by depth: one SVG panel per group, one line per initializer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt

from initbench.reporting.charts import PALETTE, drawn, percent_axis
from initbench.reporting.formatting import percent

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pandas as pd

# The initializers from the eleventh on have the colours of the first again.
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])


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
    axis = alt.Axis(tickCount=6, format="~s", values=sorted(set(places)) if x == "depth" else alt.Undefined)
    across = alt.X("x:Q", title=title, scale=alt.Scale(domain=domain, nice=False, padding=10), axis=axis)
    layers: list[alt.Chart] = []
    for initializer, colour in colours.items():
        own = [row for row in rows if row["initializer"] == initializer]
        if own:
            dash = _DASHES[list(colours).index(initializer) // len(PALETTE) % len(_DASHES)]
            layers += _layers(own, x, colour, dash, across, largest)
    return drawn(alt.layer(*layers))


def _layers(
    own: Sequence[Mapping[Hashable, Any]], x: str, colour: str, dash: list[int], across: alt.X, largest: float
) -> list[alt.Chart]:
    """Return the band, the line, its points with what they are in words, and the mark of where it ended."""
    points = [
        {
            "x": row[x],
            "percent": 100 * row["test_error_median"],
            "low": 100 * row["test_error_smallest"],
            "high": 100 * row["test_error_largest"],
            "words": words(row, x),
        }
        for row in own
    ]
    finite = [point for point in points if math.isfinite(point["percent"])]
    bounded = [point for point in finite if math.isfinite(point["high"])]
    ended = [{"x": point["x"], "words": point["words"]} for point in points if not math.isfinite(point["percent"])]
    up = percent_axis(largest)
    layers = []
    if len(bounded) > 1:
        layers.append(
            _chart(bounded)
            .mark_area(fill=colour, opacity=0.14, aria=False)
            .encode(x=across, y=percent_axis(largest, "low"), y2="high:Q")
        )
    if finite:
        lines = [{key: point[key] for key in ("x", "percent", "words")} for point in finite]
        layers.append(
            _chart(lines).mark_line(stroke=colour, strokeWidth=2, strokeDash=dash, aria=False).encode(x=across, y=up)
        )
        layers.append(
            _chart(lines)
            .mark_point(size=70 if x == "depth" else 24, filled=True, fill=colour, opacity=1)
            .encode(x=across, y=up, description="words:N")
        )
    # Where a line ends is marked once; a depth is a question of its own.
    for point in ended if x == "depth" else ended[:1]:
        layers.append(
            _chart([point])
            .mark_point(size=70, shape="triangle-up", filled=True, fill=colour, opacity=1)
            .encode(x=across, y=alt.value(0), description="words:N")
        )
    return layers


def words(row: Mapping[Hashable, Any], x: str) -> str:
    """Return what a point says: ``kaiming, depth 28: 16.40 % (16.10 % to 16.80 %), 3 seeds``."""
    names = {"step": "step", "compute": "compute", "depth": "depth"}
    median, largest = row["test_error_median"], row["test_error_largest"]
    value = percent(median) if math.isfinite(median) else "diverged"
    if row["seeds"] > 1 and math.isfinite(largest):
        value += f" ({percent(row['test_error_smallest'])} to {percent(largest)})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    diverged = f", {row['diverged']} diverged" if row["diverged"] else ""
    return f"{row['initializer']}, {names[x]} {row[x]:,.0f}: {value}, {seeds}{diverged}"


def _chart(points: Sequence[Mapping[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=list(points)))
