"""The axes of charts, as Vega-Lite encodes them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from initbench.comparing.formatting import typeset
from initbench.metric import Metric

Channel = dict[str, Any]
"""The encoding of a column without its name, which `chart.chart` adds."""
_TICKS, _LEAST_LOG_TICKS, _MOST_LOG_TICKS = 5, 3, 8
_FINE = 1000  # parts of a power of e: labels of a logarithmic axis that are nearer than one are the same
_DECADE = 10.0  # a wider range needs a logarithmic axis
_LEAST_SHARE = 0.25  # of a shared axis
_LEAST_LABELS = 28  # px for the labels of a vertical axis, so that panels below one another align
_LARGEST = 1e308  # end of an axis: beyond it a float is infinite
_LOG_ENDS = 1e-280, 1e280  # likewise, with room for the padding


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
    """Return a logarithmic axis that goes beyond the outermost values, which are positive and finite, by a factor.

    Values beyond it are drawn at its ends. Its title says ``log scale``.
    """
    low, high = (float(np.clip(end, *_LOG_ENDS)) for end in (min(values) / factor, max(values) * factor))
    scale = {"type": "log", "domain": [low, high], "nice": False, "padding": padding, "clamp": True}
    ticks = log_ticks(low, high)
    texts = json.dumps(log_labels(ticks), ensure_ascii=False)
    # Found by whole numbers, because Vega reads a number such as 1.0000000000000001e-25 as another one.
    positions = [round(_FINE * math.log(tick)) for tick in ticks]
    labels = {"values": ticks, "labelExpr": f"{texts}[indexof({positions}, round({_FINE} * log(datum.value)))]"}
    return {"type": "quantitative", "title": f"{title}, log scale", "scale": scale, "axis": labels}


def needs_log(values: Sequence[float]) -> bool:
    """Return whether no value is negative and the positive ones reach over more than a decade."""
    positive = [value for value in values if value > 0]
    return min(values, default=-1) >= 0 and bool(positive) and max(positive) > _DECADE * min(positive)


def shared(values: Sequence[float], every: Sequence[float]) -> Sequence[float]:
    """Return the values that an axis spans: of every panel, or this panel's own if they took less than a quarter."""

    def span(each: Sequence[float]) -> float:
        return float(np.ptp(np.log([value for value in each if value > 0] or [1.0]) if needs_log(every) else each))

    return every if span(values) >= _LEAST_SHARE * span(every) else values


def outcome_axis(metric: Metric, values: Sequence[float]) -> Channel:
    """Return the axis of a metric's values, which are in its unit.

    If 0 is the best value, the axis is logarithmic where the values need that (`needs_log`); else it begins at 0 and
    ends above the largest, at 1 % or more for shares.
    """
    title = with_unit(metric.title, metric.beside_title.unit)
    if metric.best == 0 and metric.better == "lower":
        if needs_log(values):
            return log_axis(title, [value for value in values if value > 0])
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
    """Return some powers of ten within a range; of one up to two decades also their multiples by 2 and 5.

    If these are fewer than three, which takes a range below a decade, return round numbers at equal distances.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(powers) > 4:
        every = math.ceil(len(powers) / _MOST_LOG_TICKS)
        return [10.0**p for p in powers if p % every == 0 and low <= 10.0**p <= high]
    ticks = [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    if len(ticks) >= _LEAST_LOG_TICKS:
        return ticks
    power = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = max(m * power for m in (1, 2, 5) if m * power <= (high - low) / 2)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_labels(ticks: Sequence[float]) -> list[str]:
    """Return plain numbers, or ``10⁻⁸`` and ``1`` if a tick is far from 1."""
    if all(1e-3 <= tick < 1e5 for tick in ticks):
        return [f"{tick:,g}" if tick < 1e4 else f"{tick:,.0f}" for tick in ticks]
    texts = [f"{tick:g}" if 1 <= tick <= 10 else np.format_float_scientific(tick, 3, trim="-") for tick in ticks]
    return [typeset(text) for text in texts]
