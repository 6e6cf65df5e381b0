"""Forest plots: estimates with their intervals, one below the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.charts.panel import Axis, Specification, panel, raw, said, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.statistics.intervals import Estimate

_ROW = 22  # px
_HALF = 0.5


class ForestRow(NamedTuple):
    """One estimate.

    Attributes:
        label: what it is of.
        estimate: in the unit of the axis; only the point is drawn where there is no interval.
        words: what the mark says to who points at it or cannot see it.
        pooled: whether it sums up the others: a diamond instead of a disc.
    """

    label: str
    estimate: Estimate
    words: str
    pooled: bool = False


def forest_panel(
    rows: Sequence[ForestRow], title: str, zero: float | None = 0.0, domain: tuple[float, float] | None = None
) -> Specification | None:
    """Return a forest plot, its rows in the order given.

    Args:
        rows: those without a finite value are left out.
        title: of the axis.
        zero: where the line of no effect stands, None for no line.
        domain: of the axis; that of the estimates by default.

    Returns:
        None where there is nothing to draw.
    """
    marks = [_mark(row) for row in rows if math.isfinite(row.estimate.value)]
    if not marks:
        return None
    axis = Axis(title, domain, padding=0) if domain else Axis(title, nice=True)
    labels = {"ticks": False, "domain": False, "labelPadding": 8, "grid": False}
    y = {"field": "label", "type": "nominal", "title": None, "sort": None, "axis": labels}
    ink = {"value": "currentColor"}
    layers: list[dict[str, Any]] = [
        {
            "transform": where("low"),
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55, "aria": False},
            "encoding": {"y": y, "x": axis.channel("low"), "x2": {"field": "high"}, "stroke": ink},
        },
        {
            "mark": {"type": "point", "filled": True, "opacity": 1},
            "encoding": {
                "y": y,
                "x": axis.channel("value"),
                "fill": ink,
                "shape": raw("shape"),
                "size": raw("size", "quantitative"),
                "description": said(),
            },
        },
    ]
    if zero is not None:
        layers.insert(
            0,
            {
                "mark": {"type": "rule", "strokeDash": [4, 3], "opacity": _HALF, "aria": False},
                "data": {"values": [{"zero": zero}]},
                "encoding": {"x": axis.channel("zero"), "stroke": ink},
            },
        )
    return panel(layers, marks, height=_ROW * len(marks))


def _mark(row: ForestRow) -> dict[str, Any]:
    mark: dict[str, Any] = {
        "label": row.label,
        "value": row.estimate.value,
        "words": row.words,
        "shape": "diamond" if row.pooled else "circle",
        "size": 130 if row.pooled else 60,
    }
    return mark | ({"low": row.estimate.low, "high": row.estimate.high} if row.estimate.has_interval else {})
