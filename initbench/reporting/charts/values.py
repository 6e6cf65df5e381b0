"""A quantity that was measured, by layer, depth or step: lines with bands, one per treatment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.charts.bands import Point, band_panel, drawn_values
from initbench.reporting.charts.legend import SPOKEN
from initbench.reporting.charts.panel import Axis, Specification, log_axis

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

_KINDS = ("after", "stable", "before", "best")  # the solid lines first
_DECADE = 10.0  # of a range that a linear axis still shows


def value_panel(
    values: pd.DataFrame,
    x: str,
    across: str,
    up: str,
    colours: Mapping[str, str],
    *,
    place: Callable[[Mapping[str, Any]], str] | None = None,
    log_x: bool = False,
    log_y: bool | None = None,
    unfinished: str = "not finite",
) -> Specification | None:
    """Return the lines of a quantity: the median over the seeds, and a band from the smallest to the largest.

    Values that are not finite have a triangle at the upper edge; on a logarithmic axis a value of 0, as of a gradient
    that has vanished, is a hollow mark at the lower edge. Rows without a value are left out.

    Args:
        values: ``treatment``, the column `x`, ``value_median``, ``value_smallest``, ``value_largest``, and ``kind``
            where there are lines of ``before`` (dashed) and ``after`` (solid), or of ``best`` and ``stable`` rates.
        x: the horizontal axis' column.
        across: the title of the horizontal axis.
        up: that of the vertical one, with its unit in parentheses.
        colours: of all treatments, as from `style.colours`.
        place: what a point says of where it is, from its row; by default the column's name and value.
        log_x: whether the horizontal axis is logarithmic; then what is not positive is left out.
        log_y: whether the vertical one is; by default where no value is negative and the positive ones reach over more
            than a decade.
        unfinished: what a triangle means.

    Returns:
        None where there is nothing to draw.
    """
    present = values.dropna(subset=[x, "value_median"])
    rows: list[dict[str, Any]] = [{str(key): item for key, item in row.items()} for row in present.to_dict("records")]
    rows.sort(key=lambda row: _KINDS.index(row["kind"]) if row.get("kind") in _KINDS else 0)
    points = [_point(row, x, place) for row in rows if row[x] > 0 or not log_x]
    shown = drawn_values(points)
    if not shown:
        return None
    places = [point.x for point in points]
    positive = [value for value in shown if value > 0]
    if log_y is None:
        log_y = min(shown) >= 0 and bool(positive) and max(positive) > _DECADE * min(positive)
    vertical = log_axis(up, positive) if log_y and positive else Axis(up, nice=True)
    horizontal = log_axis(across, places, 1.1, padding=10) if log_x else _linear(across, places)
    top = {"value": 0}
    return band_panel(points, colours, horizontal, vertical, top, apart=True, diverged=unfinished)


def _linear(title: str, places: Sequence[float]) -> Axis:
    low, high = min(places), max(places)
    few = sorted(set(places)) if all(float(place).is_integer() for place in places) and high - low < 10 else None
    return Axis(title, (low, high) if high > low else (low - 1, high + 1), ticks=few, padding=10)


def _point(row: Mapping[str, Any], x: str, place: Callable[[Mapping[str, Any]], str] | None) -> Point:
    median, low, high = (float(row[f"value_{part}"]) for part in ("median", "smallest", "largest"))
    kind = str(row.get("kind") or "")
    at = f"{x} {row[x]:,g}" if place is None else place(row)
    text = number(median)
    if math.isfinite(median) and math.isfinite(low) and math.isfinite(high) and low < high:
        text += f" ({number(low)} to {number(high)})"
    label = ", ".join(part for part in (str(row["treatment"]), SPOKEN.get(kind, kind), at) if part)
    return Point(str(row["treatment"]), float(row[x]), median, f"{label}: {text}", low, high, kind)


def number(value: float) -> str:
    """Return a value in three digits: ``0.012``, ``1.5e-07``; ``not finite`` where it is not."""
    return f"{value:.3g}" if math.isfinite(value) else "not finite"
