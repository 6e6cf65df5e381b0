"""What all panels are made of: encodings, axes and the specification around them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.charts.legend import Entry, with_legend
from initbench.reporting.charts.style import HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from initbench.metric import Metric

Specification = dict[str, Any]
_MARKS = "marks"
_TICKS = 5
_LEAST_LABELS = 28  # px that the labels of a vertical axis take, so that panels below one another align
_MOST_LOG_TICKS = 8
_SMALLEST, _LARGEST = 1e-307, 1e308  # that an axis reaches: an end beyond is no number, or is 0


class Axis(NamedTuple):
    """A quantitative axis.

    Attributes:
        title: with its unit in parentheses.
        domain: from, to; that of the data by default.
        log: whether it is logarithmic; it then needs a domain.
        ticks: where labels stand; few round numbers by default.
        padding: of the drawing at both ends, in pixels.
        nice: whether the domain is widened to round numbers.
    """

    title: str
    domain: tuple[float, float] | None = None
    log: bool = False
    ticks: Sequence[float] | None = None
    padding: float = 8
    nice: bool = False

    def channel(self, field: str) -> dict[str, Any]:
        """Return the encoding of a field by this axis."""
        scale: dict[str, Any] = {"nice": self.nice, "padding": self.padding, "zero": False}
        axis: dict[str, Any] = {"tickCount": _TICKS}
        domain = [] if self.domain is None else [min(max(end, -_LARGEST), _LARGEST) for end in self.domain]
        if domain:
            scale["domain"] = domain
        if self.ticks is not None:
            axis = {"values": list(self.ticks)}
        if self.log:
            low, high = (max(end, _SMALLEST) for end in domain)
            scale = {"type": "log", "domain": [low, high], "nice": False, "padding": self.padding}
            ticks = log_ticks(low, high)
            labels = json.dumps(log_labels(ticks), ensure_ascii=False)
            axis = {"values": ticks, "labelExpr": f"{labels}[indexof({json.dumps(ticks)}, datum.value)]"}
        return {"field": field, "type": "quantitative", "title": self.title, "scale": scale, "axis": axis}

    def up(self, field: str) -> dict[str, Any]:
        """Return the encoding of a field by this axis where it is the vertical one."""
        channel = self.channel(field)
        return channel | {"axis": channel["axis"] | {"minExtent": _LEAST_LABELS}}


def log_axis(title: str, values: Iterable[float], factor: float = 1.25, **options: Any) -> Axis:
    """Return a logarithmic axis on which positive values stand, also where they are all the same.

    Args:
        title: of the axis.
        values: positive and finite, at least one.
        factor: between the outermost values and the ends.
        **options: of `Axis`.
    """
    shown = list(values)
    return Axis(title, (min(shown) / factor, max(shown) * factor), log=True, **options)


def outcome_axis(metric: Metric, shown: Sequence[float]) -> Axis:
    """Return the axis of a metric's values.

    It begins at 0 where that is the best value and ends above the largest, of shares at 1 % at the least; for other
    metrics it is that of the values.

    Args:
        metric: of the values.
        shown: what is drawn, in the unit of the axis.
    """
    unit = metric.beside_title.unit
    title = metric.title + (f" ({unit})" if unit else "")
    if metric.best == 0 and metric.better == "lower":
        least = 1 if metric.unit == "%" else 1e-9
        return Axis(title, (0, max(1.08 * max(shown, default=0), least)), nice=True, padding=0)
    return Axis(title, nice=True)


def worst_edge(metric: Metric) -> dict[str, Any]:
    """Return where what diverged is marked: at the edge of the worst values, above or below."""
    return {"value": 0 if metric.better == "lower" else "height"}


def raw(field: str, kind: str = "nominal") -> dict[str, Any]:
    """Return the encoding of a field that holds what is drawn: a colour, a shape, a size, a dash."""
    return {"field": field, "type": kind, "scale": None}


def said(field: str = "words") -> dict[str, Any]:
    """Return the encoding of what a mark says to who points at it or cannot see it."""
    return {"field": field, "type": "nominal"}


def where(field: str) -> list[dict[str, str]]:
    """Return the transform that keeps the marks that have a field."""
    return [{"filter": f"isValid(datum.{field})"}]


def panel(
    layers: Sequence[Mapping[str, Any]],
    marks: Sequence[Mapping[str, Any]],
    legend: Iterable[Entry] = (),
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> Specification:
    """Return the specification of a panel.

    Args:
        layers: from back to front.
        marks: what they draw; NaN and infinities are not for Vega.
        legend: what colours and shapes mean.
        width: of the drawing without its axes, in pixels.
        height: likewise.
    """
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.20.1.json",
        "width": width,
        "height": height,
        "datasets": {_MARKS: list(marks)},
        "data": {"name": _MARKS},
        "layer": list(layers),
    }
    return with_legend(specification, legend)


def log_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten in a range; where this is over two decades, some powers alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(powers) <= 4:
        return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return [10.0**p for p in powers if p % math.ceil(len(powers) / _MOST_LOG_TICKS) == 0 and low <= 10.0**p <= high]


def log_labels(ticks: Sequence[float]) -> list[str]:
    """Return what stands at the ticks of a logarithmic axis: plain numbers, or all as ``1e-8`` where any is far from 1.

    Not as 10⁻⁸: fonts that papers take have no such minus, and another font would stand in for the label.

    Args:
        ticks: as from `log_ticks`.
    """
    if all(1e-3 <= tick < 1e5 for tick in ticks):
        return [f"{tick:,g}" if tick < 1e4 else f"{tick:,.0f}" for tick in ticks]
    found = []
    for tick in ticks:
        mantissa, _, exponent = f"{tick:.0e}".partition("e")
        found.append(f"{mantissa}e{int(exponent)}")
    return found
