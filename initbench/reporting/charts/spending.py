"""What each treatment spends: training steps before training, and in training until a target is met."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.charts.legend import Entry
from initbench.reporting.charts.panel import Axis, Specification, panel, raw, said, where

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE, TRAINING = "before training", "training until the target"
# Of the palette, one light and one dark: told apart in grey too.
_COLOURS = {BEFORE: "#e69f00", TRAINING: "#0072b2"}
_ROW = 26  # px
_WORDS = 0.35  # of the axis, that a few words take


class Spending(NamedTuple):
    """What one treatment spends.

    Attributes:
        label: of the treatment.
        before: training steps of the cost of its initialization.
        total: with those until the target is met; +∞ where it is not met.
        words: what its bars say to who points at them or cannot see them.
    """

    label: str
    before: float
    total: float
    words: str


def spending_panel(rows: Sequence[Spending], title: str, missed: str = "target not met") -> Specification | None:
    """Return one bar for each treatment, in the order given: what stands before training, then training.

    Args:
        rows: those whose cost before training is not known are left out.
        title: of the axis.
        missed: what stands beside the bar of one that does not meet the target.

    Returns:
        None where there is nothing to draw.
    """
    shown = [row for row in rows if math.isfinite(row.before) and not math.isnan(row.total)]
    ends = [end for row in shown for end in (row.before, row.total) if math.isfinite(end)]
    if not any(ends):
        return None
    parts = [BEFORE] if any(row.before > 0 for row in shown) else []
    parts += [TRAINING] if any(math.isfinite(row.total) for row in shown) else []
    missing = [row.before for row in shown if math.isinf(row.total)]
    # Beside the longest bar of one that misses the target there is room for the words.
    across = Axis(title, (0, max([1.02 * max(ends), *(before / (1 - _WORDS) for before in missing)])), padding=0)
    labels = {"ticks": False, "domain": False, "labelPadding": 8, "grid": False}
    y = {"field": "label", "type": "nominal", "title": None, "sort": [row.label for row in shown], "axis": labels}
    bar = {"y": y, "x": across.channel("from"), "x2": {"field": "to"}, "fill": raw("colour"), "description": said()}
    layers: list[dict[str, Any]] = [
        {
            "transform": where("to"),
            "mark": {"type": "bar", "height": {"band": 0.62}},
            "encoding": bar,
        }
    ]
    if any(math.isinf(row.total) for row in shown):
        beside = {"type": "text", "align": "left", "dx": 5, "fontStyle": "italic", "aria": False}
        text = {"y": y, "x": across.channel("at"), "text": {"field": "missed", "type": "nominal"}}
        layers.append(
            {"transform": where("at"), "mark": beside, "encoding": text | {"color": {"value": "currentColor"}}}
        )
    legend = [Entry(part, _COLOURS[part], "square") for part in parts]
    marks = [mark for row in shown for mark in _marks(row, missed)]
    return panel(layers, marks, legend, height=_ROW * len(shown))


def _marks(row: Spending, missed: str) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    if row.before > 0:
        marks.append({"from": 0, "to": row.before, "colour": _COLOURS[BEFORE], "words": row.words})
    if math.isfinite(row.total):
        marks.append({"from": row.before, "to": row.total, "colour": _COLOURS[TRAINING], "words": row.words})
    else:
        marks.append({"at": row.before, "missed": missed})
    return [{"label": row.label, **mark} for mark in marks]
