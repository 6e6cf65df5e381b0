"""Charts with a row for each name: estimates with their intervals, and bars of what is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from initbench.reporting.charts.axis import axis, names_axis
from initbench.reporting.charts.chart import Specification, chart
from initbench.reporting.charts.legend import Entry
from initbench.statistics.intervals import Estimate

_ESTIMATE, _BAR = 22, 26  # heights of rows in px
_BEFORE, _TRAINING = "#5f6b78", "#a9b4bf"  # greys, because the colours of the palette mean treatments
_WORDS = 0.35  # of the axis, for a few words beside a bar


class ForestRow(NamedTuple):
    """One estimate, in the unit of the axis."""

    label: str
    estimate: Estimate  # without an interval only the point is drawn
    words: str  # for a screen reader
    pooled: bool = False  # sums up the others: a diamond instead of a disc


def forest_panel(
    rows: Sequence[ForestRow], title: str, zero: float | None = 0.0, domain: tuple[float, float] | None = None
) -> Specification | None:
    """Return a forest plot, its rows in the order given; None if no estimate is finite.

    Estimates with the same label share a row; those that are not finite are left out. `zero`, the value of no effect,
    has a line.
    """
    marks: list[dict[str, Any]] = []
    for label, estimate, words, pooled in rows:
        if math.isfinite(estimate.value):
            mark = {"label": label, "value": estimate.value, "words": words}
            mark |= {"shape": "diamond", "size": 130} if pooled else {"shape": "circle", "size": 60}
            marks.append(mark | ({"low": estimate.low, "high": estimate.high} if estimate.has_interval else {}))
    if not marks:
        return None
    labels = list(dict.fromkeys(mark["label"] for mark in marks))
    marks += [] if zero is None else [{"zero": zero}]
    x = axis(title, domain, padding=0) if domain else axis(title, nice=True)
    return chart("forest", marks, x, names_axis(labels), height=_ESTIMATE * len(labels))


class Bar(NamedTuple):
    """What one treatment spends."""

    label: str
    before: float  # the cost of its initialization in training steps
    total: float  # with the steps until the target is met; +∞ if it is not met
    words: str  # for a screen reader


def spending_panel(bars: Sequence[Bar], title: str, beside: Sequence[Bar] = ()) -> Specification | None:
    """Return one bar for each treatment, in the order given: what it spends before training, then in training.

    Bars of unknown cost are left out. That a treatment does not meet the target is written beside its bar. The axis has
    room for the bars `beside`, which other panels draw. None if there is nothing to draw.
    """
    bars, beside = _known(bars), _known([*bars, *beside])
    if not any(bar.before > 0 or 0 < bar.total < math.inf for bar in bars):
        return None
    marks: list[dict[str, Any]] = []
    for label, before, total, words in bars:
        if before > 0:
            marks.append({"label": label, "from": 0, "to": before, "colour": _BEFORE, "words": words})
        if math.isfinite(total):
            marks.append({"label": label, "from": before, "to": total, "colour": _TRAINING, "words": words})
        else:
            marks.append({"label": label, "at": before, "missed": "target not met"})
    colours = {mark.get("colour") for mark in marks}
    meanings = {_BEFORE: "before training", _TRAINING: "training until the target"}
    legend = [Entry(meaning, colour, "square") for colour, meaning in meanings.items() if colour in colours]
    end = max(bar.before / (1 - _WORDS) if math.isinf(bar.total) else 1.02 * bar.total for bar in beside)
    x, names = axis(title, (0, end), padding=0), names_axis([bar.label for bar in bars])
    return chart("spending", marks, x, names, legend, height=_BAR * len(bars))


def _known(bars: Sequence[Bar]) -> list[Bar]:
    return [bar for bar in bars if math.isfinite(bar.before) and not math.isnan(bar.total)]
