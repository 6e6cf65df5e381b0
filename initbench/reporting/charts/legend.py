"""Legends of figures: what their colours, shapes and dashes mean."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from initbench.reporting.charts.style import PAGE_INK, styles

# Within the square from -1 to 1. Lines are thin rectangles, because a legend fills its symbols and strokes none.
_PATHS = {
    "circle": "M.85,0A.85,.85,0,1,1,-.85,0A.85,.85,0,1,1,.85,0Z",
    "square": "M-.75,-.75h1.5v1.5h-1.5Z",
    "diamond": "M0,-1L.75,0L0,1L-.75,0Z",
    "cross": "M-.9,-.3h.6v-.6h.6v.6h.6v.6h-.6v.6h-.6v-.6h-.6Z",
    "triangle-up": "M0,-.85L.95,.8H-.95Z",
    "triangle-down": "M0,.85L.95,-.8H-.95Z",
    "triangle-right": "M.85,0L-.8,.95V-.95Z",
    "triangle-left": "M-.85,0L.8,.95V-.95Z",
    "hollow": "M.9,0A.9,.9,0,1,1,-.9,0A.9,.9,0,1,1,.9,0ZM.6,0A.6,.6,0,1,0,-.6,0A.6,.6,0,1,0,.6,0Z",
    "line": "M-1.4,-.15h2.8v.3h-2.8Z",
    "dashed": "M-1.4,-.1h.8v.2h-.8ZM-.4,-.1h.8v.2h-.8ZM.6,-.1h.8v.2h-.8Z",
}
_CHARACTER = 0.55  # width in sizes of type
_SYMBOL, _ROW = 30, 13  # px


class Entry(NamedTuple):
    """A line of a legend."""

    label: str
    colour: str = PAGE_INK  # or #rrggbb if its meaning depends on colour
    shape: str = "circle"  # a key of _PATHS

    @property
    def path(self) -> str:
        """The outline of its symbol, for an SVG in which it reaches from -1 to 1."""
        return _PATHS[self.shape]

    @property
    def symbol(self) -> str:
        """Its symbol as an SVG for a line of text."""
        return (
            '<svg width="14" height="14" viewBox="-1.4 -1.4 2.8 2.8" aria-hidden="true">'
            f'<path d="{self.path}" fill="{self.colour}"/></svg>'
        )


def entries_of(colours: Mapping[str, str], shown: Collection[str]) -> list[Entry]:
    """Return the entries of the labels that a figure shows, in the order of all (`style.colours`)."""
    return [Entry(label, style.colour, style.shape) for label, style in styles(colours).items() if label in shown]


def legend_data(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return a legend as ``usermeta`` of a specification, which Vega ignores."""
    return {"initbench": {"legend": [entry._asdict() for entry in entries]}}


def legend_of(specification: Mapping[str, Any]) -> list[Entry]:
    """Return the legend that a specification holds."""
    return [Entry(**entry) for entry in specification.get("usermeta", {}).get("initbench", {}).get("legend", ())]


def legend_layer(entries: list[Entry], width: float, size: float) -> tuple[dict[str, Any], float]:
    """Return a layer that shows nothing but a legend below the axes, and the height that the legend takes.

    The width of the whole figure and the size of the type are in pixels.
    """
    widest = _SYMBOL + _CHARACTER * size * max(len(entry.label) for entry in entries)
    columns = max(1, min(len(entries), int(width / widest)))
    # Vega merges equal labels: spaces without width keep them apart.
    labels = [
        entry.label + "\N{ZERO WIDTH SPACE}" * [other.label for other in entries[:i]].count(entry.label)
        for i, entry in enumerate(entries)
    ]
    legend = {"orient": "bottom", "direction": "horizontal", "columns": columns, "title": None, "symbolOpacity": 1}

    def channel(values: list[str]) -> dict[str, Any]:
        return {"field": "label", "type": "nominal", "scale": {"domain": labels, "range": values}, "legend": legend}

    layer = {
        "data": {"values": [{"label": label} for label in labels]},
        "mark": {"type": "point", "filled": True, "opacity": 0, "aria": False},
        "encoding": {
            "x": {"value": 0},
            "y": {"value": 0},
            "color": channel([entry.colour for entry in entries]),
            "shape": channel([entry.path for entry in entries]),
        },
    }
    return layer, _ROW * math.ceil(len(entries) / columns) + 2 * _ROW
