"""Forest plots: estimates with their intervals, one below the other, as SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import altair as alt

from initbench.reporting.charts import MARKS, drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.reporting.statistics.intervals import Estimate

_ROW = 22
_LONGEST_LABEL = 280


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
) -> str | None:
    """Return a forest plot as SVG, its rows in the order given.

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
    scale = alt.Scale(domain=domain, nice=False) if domain else alt.Scale(zero=False, nice=True, padding=8)
    across = alt.X("value:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
    labels = alt.Axis(labelLimit=_LONGEST_LABEL, ticks=False, domain=False, labelPadding=8, grid=False)
    down = alt.Y("label:N", title=None, sort=None, axis=labels)
    base = alt.Chart(alt.NamedData(MARKS)).encode(y=down)
    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2, stroke="currentColor", opacity=0.55, aria=False)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, opacity=1, fill="currentColor").encode(
            x=across,
            shape=alt.Shape("shape:N", scale=None),
            size=alt.Size("size:Q", scale=None),
            description="words:N",
        ),
    ]
    if zero is not None:
        line = alt.Chart(alt.NamedData(MARKS)).mark_rule(
            strokeDash=[4, 3], stroke="currentColor", opacity=0.5, aria=False
        )
        layers.insert(0, line.encode(x=alt.X(datum=zero, scale=scale)))
    return drawn(alt.layer(*layers), marks, height=_ROW * len(marks))


def _mark(row: ForestRow) -> dict[str, Any]:
    mark: dict[str, Any] = {
        "label": row.label,
        "value": row.estimate.value,
        "words": row.words,
        "shape": "diamond" if row.pooled else "circle",
        "size": 130 if row.pooled else 60,
    }
    return mark | ({"low": row.estimate.low, "high": row.estimate.high} if row.estimate.has_interval else {})
