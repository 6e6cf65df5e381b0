"""The outcome by step, by compute and by depth: one panel per workload, one line per treatment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.charts.bands import Point, band_panel, drawn_values
from initbench.reporting.charts.panel import Axis, Specification, log_axis, outcome_axis, worst_edge

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from initbench.metric import Metric

_KINDS = ("test", "train")  # the solid line first


def line_panel(
    curves: pd.DataFrame,
    x: str,
    title: str,
    colours: Mapping[str, str],
    metric: Metric,
    *,
    log_x: bool = False,
    log_y: bool = False,
) -> Specification | None:
    """Return one workload's lines: the median over the seeds, and a band from the smallest to the largest.

    A line ends where the median has diverged, and a triangle at the edge of the worst values stands at the next point;
    there is no band where a seed has diverged. Where a split is ``train``, its lines are thin and dashed.

    Args:
        curves: ``treatment``, the column `x`, ``outcome_median``, ``outcome_smallest``, ``outcome_largest`` (as the
            metric stores them, not finite where diverged), ``seeds``, ``diverged`` (how many), and ``split`` where
            there are lines of ``test`` and ``train``; such as one workload's rows of `curves.training_curves`.
        x: the horizontal axis' column; at ``depth``, each place is a network of its own.
        title: of the horizontal axis.
        colours: of all treatments, as from `style.colours`.
        metric: of the outcomes.
        log_x: whether the horizontal axis is logarithmic; then what is not positive is left out.
        log_y: whether the vertical one is; then a value of 0 is a hollow mark at the lower edge.

    Returns:
        None where there is nothing to draw.
    """
    rows = [{str(key): value for key, value in row.items()} for row in curves.dropna(subset=[x]).to_dict("records")]
    rows.sort(key=lambda row: _KINDS.index(row["split"]) if row.get("split") in _KINDS else 0)
    points = [_point(row, x, metric) for row in rows if row[x] > 0 or not log_x]
    shown = drawn_values(points)
    if not shown:
        return None
    up = outcome_axis(metric, shown)
    positive = [value for value in shown if value > 0]
    up = log_axis(up.title, positive) if log_y and positive else up
    return band_panel(points, colours, _across(points, x, title, log=log_x), up, worst_edge(metric), apart=x == "depth")


def _across(points: list[Point], x: str, title: str, *, log: bool) -> Axis:
    places = sorted({point.x for point in points})
    if log:
        return log_axis(title, places, 1.1, padding=10)
    low = places[0] if x == "depth" else min(0, places[0])
    return Axis(title, (low, places[-1]), ticks=places if x == "depth" else None, padding=10)


def _point(row: Mapping[str, Any], x: str, metric: Metric) -> Point:
    median = row["outcome_median"]
    low, high = (metric.scale * row[f"outcome_{end}"] if math.isfinite(median) else math.nan for end in _ENDS)
    value = metric.scale * median
    return Point(row["treatment"], row[x], value, words(row, x, metric), low, high, row.get("split", ""))


_ENDS = ("smallest", "largest")


def words(row: Mapping[str, Any], x: str, metric: Metric) -> str:
    """Return what a point says: ``kaiming, depth 28: 16.40 % (16.10 % to 16.80 %), 3 seeds``."""
    median, ends = row["outcome_median"], [row[f"outcome_{end}"] for end in _ENDS]
    value = metric.text(median) if math.isfinite(median) else "diverged"
    if row["seeds"] > 1 and all(map(math.isfinite, ends)):
        value += f" ({metric.text(ends[0])} to {metric.text(ends[1])})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    diverged = f", {row['diverged']} diverged" if row["diverged"] else ""
    split = f", {row['split']}" if row.get("split") else ""
    return f"{row['treatment']}{split}, {x} {row[x]:,.0f}: {value}, {seeds}{diverged}"
