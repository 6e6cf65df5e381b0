"""The outcome by step, by compute and by depth: one SVG panel per workload, one line per treatment."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import altair as alt

from initbench.reporting.charts import MARKS, drawn, outcome_axis, stroke_dash, worst_edge

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import pandas as pd

    from initbench.metric import Metric

_TRIANGLE = 70


def line_panel(curves: pd.DataFrame, x: str, title: str, colours: Mapping[str, str], metric: Metric) -> str | None:
    """Return one workload's lines as SVG: the median over the seeds, and a band from the smallest to the largest.

    A line ends where the median has diverged, and a triangle at the edge of the worst values stands at the next point;
    there is no band where a seed has diverged.

    Args:
        curves: one workload's rows of `curves.training_curves`, or one family's of `depth.depth_curves`.
        x: the horizontal axis' column.
        title: of the horizontal axis.
        colours: of all treatments, as from `charts.colours`.
        metric: of the outcomes.

    Returns:
        None where there is nothing to draw.
    """
    rows = curves.dropna(subset=[x]).to_dict("records")
    values = [row["outcome_median"] for row in rows if math.isfinite(row["outcome_median"])]
    if not values:
        return None
    values += [end for row in rows if _is_bounded(row) for end in (row["outcome_smallest"], row["outcome_largest"])]
    axis_of = [metric.scale * value for value in values]
    places = [row[x] for row in rows]
    domain = [min(places), max(places)] if x == "depth" else [0, max(places)]
    axis = alt.Axis(tickCount=5, values=sorted(set(places)) if x == "depth" else alt.Undefined)
    across = alt.X("x:Q", title=title, scale=alt.Scale(domain=domain, nice=False, padding=10), axis=axis)
    names = list(colours)
    shown = {row["treatment"] for row in rows}
    paint = alt.Scale(domain=names, range=list(colours.values()))
    up = outcome_axis(metric, axis_of)
    base = alt.Chart(alt.NamedData(MARKS)).encode(x=across)
    stroke = alt.Stroke("treatment:N", scale=paint, legend=None)
    fill = alt.Fill("treatment:N", scale=paint, legend=None)
    layers = [
        base.transform_filter("isValid(datum.high)")
        .mark_area(opacity=0.14, aria=False)
        .encode(y=outcome_axis(metric, axis_of, "low"), y2="high:Q", fill=fill),
        base.transform_filter("isValid(datum.value)")
        .mark_line(strokeWidth=2, aria=False)
        .encode(y=up, stroke=stroke, **stroke_dash(colours)),
        base.transform_filter("isValid(datum.value)")
        .mark_point(size=70 if x == "depth" else 24, filled=True, opacity=1)
        .encode(y=up, fill=fill, description="words:N"),
        base.transform_filter("datum.ended")
        .mark_point(shape="triangle-up", filled=True, opacity=1)
        .encode(y=alt.value(worst_edge(metric)), fill=fill, size=alt.Size("size:Q", scale=None), description="words:N"),
    ]
    marks = [mark for name in names if name in shown for mark in _marks(rows, name, x, metric)]
    _tell_apart([mark for mark in marks if mark.get("ended")])
    return drawn(alt.layer(*layers), marks)


def _tell_apart(ended: list[dict[str, Any]]) -> None:
    """Give the triangles at one place sizes by which each is seen behind the next."""
    left = Counter(mark["x"] for mark in ended)
    for mark in ended:
        mark["size"] = _TRIANGLE * left[mark["x"]]
        left[mark["x"]] -= 1


def _marks(rows: Sequence[Mapping[Hashable, Any]], treatment: str, x: str, metric: Metric) -> list[dict[str, Any]]:
    """Return one treatment's points as data of the chart; what is not finite is left out."""
    marks: list[dict[str, Any]] = []
    ended = False
    for row in rows:
        if row["treatment"] != treatment:
            continue
        mark = {"x": row[x], "treatment": treatment, "words": words(row, x, metric)}
        if not math.isfinite(row["outcome_median"]):
            # Where a line ends is marked once; each depth is a network of its own.
            marks.append(mark | {"ended": x == "depth" or not ended})
            ended = True
            continue
        mark["value"] = metric.scale * row["outcome_median"]
        if _is_bounded(row):
            mark |= {"low": metric.scale * row["outcome_smallest"], "high": metric.scale * row["outcome_largest"]}
        marks.append(mark)
    return marks


def _is_bounded(row: Mapping[Hashable, Any]) -> bool:
    return math.isfinite(row["outcome_smallest"]) and math.isfinite(row["outcome_largest"])


def words(row: Mapping[Hashable, Any], x: str, metric: Metric) -> str:
    """Return what a point says: ``kaiming, depth 28: 16.40 % (16.10 % to 16.80 %), 3 seeds``."""
    median = row["outcome_median"]
    value = metric.text(median) if math.isfinite(median) else "diverged"
    if row["seeds"] > 1 and _is_bounded(row):
        value += f" ({metric.text(row['outcome_smallest'])} to {metric.text(row['outcome_largest'])})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    diverged = f", {row['diverged']} diverged" if row["diverged"] else ""
    return f"{row['treatment']}, {x} {row[x]:,.0f}: {value}, {seeds}{diverged}"
