"""The axes of charts, as Vega-Lite encodes them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from initbench.metric import Metric

Channel = dict[str, Any]
"""The encoding of a column without its name, which `chart.chart` adds."""
_TICKS, _MOST_LOG_TICKS = 5, 8
_LEAST_LABELS = 28  # px for the labels of a vertical axis, so that panels below one another align
_SMALLEST, _LARGEST = 1e-307, 1e308  # ends of an axis: beyond them a float is 0 or infinite


def axis(
    title: str,
    domain: tuple[float, float] | None = None,
    *,
    ticks: Sequence[float] | None = None,
    padding: float = 8,
    nice: bool = False,
) -> Channel:
    """Return a linear axis, by default over the data, with about five labels at round numbers.

    `ticks` are the values with labels, `padding` is in pixels at both ends, `nice` widens the domain to round numbers.
    """
    scale: dict[str, Any] = {"nice": nice, "padding": padding, "zero": False}
    if domain is not None:
        scale["domain"] = [min(max(end, -_LARGEST), _LARGEST) for end in domain]
    labels = {"tickCount": _TICKS} if ticks is None else {"values": list(ticks)}
    return {"type": "quantitative", "title": title, "scale": scale, "axis": labels}


def log_axis(title: str, values: Sequence[float], factor: float = 1.25, padding: float = 8) -> Channel:
    """Return a logarithmic axis that goes beyond the outermost values, which are positive and finite, by a factor."""
    low, high = (min(max(end, _SMALLEST), _LARGEST) for end in (min(values) / factor, max(values) * factor))
    scale = {"type": "log", "domain": [low, high], "nice": False, "padding": padding}
    ticks = log_ticks(low, high)
    texts = json.dumps(log_labels(ticks), ensure_ascii=False)
    labels = {"values": ticks, "labelExpr": f"{texts}[indexof({json.dumps(ticks)}, datum.value)]"}
    return {"type": "quantitative", "title": title, "scale": scale, "axis": labels}


def outcome_axis(metric: Metric, values: Sequence[float]) -> Channel:
    """Return the axis of a metric's values, which are in its unit.

    If 0 is the best value, the axis begins at 0 and ends above the largest, at 1 % or more for shares.
    """
    title = with_unit(metric.title, metric.beside_title.unit)
    if metric.best == 0 and metric.better == "lower":
        least = 1 if metric.unit == "%" else 1e-9
        return axis(title, (0, max(1.08 * max(values, default=0), least)), nice=True, padding=0)
    return axis(title, nice=True)


def worst_edge(metric: Metric) -> str:
    """Return the edge of a metric's worst values, ``top`` or ``bottom``."""
    return "top" if metric.better == "lower" else "bottom"


def names_axis(names: Sequence[str]) -> Channel:
    """Return a vertical axis with a row for each name."""
    look = {"ticks": False, "domain": False, "labelPadding": 8, "grid": False}
    return {"type": "nominal", "title": None, "sort": list(names), "axis": look}


def vertical(channel: Channel) -> Channel:
    """Return an axis whose labels have the same room in panels below one another."""
    return channel | {"axis": channel["axis"] | {"minExtent": _LEAST_LABELS}}


def with_unit(title: str, unit: str) -> str:
    """Return ``test error (%)``, or the title alone if there is no unit."""
    return f"{title} ({unit})" if unit else title


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten within a range of up to two decades, else some of the powers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(powers) <= 4:
        return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return [10.0**p for p in powers if p % math.ceil(len(powers) / _MOST_LOG_TICKS) == 0 and low <= 10.0**p <= high]


def log_labels(ticks: Sequence[float]) -> list[str]:
    """Return plain numbers, or ``1e-8`` for all ticks if one is far from 1.

    Not 10⁻⁸: the fonts of papers lack that minus, and another font would replace the label.
    """
    if all(1e-3 <= tick < 1e5 for tick in ticks):
        return [f"{tick:,g}" if tick < 1e4 else f"{tick:,.0f}" for tick in ticks]
    parts = [f"{tick:.0e}".partition("e") for tick in ticks]
    return [f"{mantissa}e{int(exponent)}" for mantissa, _, exponent in parts]
