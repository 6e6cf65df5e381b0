"""What the colours and shapes of a figure mean."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.reporting.charts.style import styles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

INK = "currentColor"
# Within the square from -1 to 1. Lines are thin rectangles: a legend fills its symbols and strokes none.
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
SPOKEN = {  # kinds of lines
    "before": "before tuning",
    "after": "after tuning",
    "stable": "largest stable rate",
    "best": "best rate",
}
_META = "initbench"
_CHARACTER, _SYMBOL, _ROW = (
    0.55,
    30,
    13,
)  # of a legend in a paper: widths in sizes of type and in pixels, a row's height


class Entry(NamedTuple):
    """A line of a legend.

    Attributes:
        label: what it says.
        colour: as ``#rrggbb``, or that of the text (``currentColor``) for what does not depend on colour.
        shape: of its symbol: Vega's name of a shape, ``hollow``, ``line`` or ``dashed``.
    """

    label: str
    colour: str = INK
    shape: str = "circle"

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
    """Return the entries of the labels that a figure shows, in the order of all.

    Args:
        colours: of all labels, as from `style.colours`.
        shown: some of them.
    """
    return [Entry(label, style.colour, style.shape) for label, style in styles(colours).items() if label in shown]


def kind_entries(kinds: Iterable[str], dashed: Collection[str]) -> list[Entry]:
    """Return what kinds of lines mean, where there is more than one.

    Args:
        kinds: such as ``test`` and ``train``.
        dashed: those that are.
    """
    found = list(dict.fromkeys(kinds))
    lines = [Entry(SPOKEN.get(kind, kind), shape="dashed" if kind in dashed else "line") for kind in found if kind]
    return lines if len(found) > 1 else []


def with_legend(specification: dict[str, Any], entries: Iterable[Entry]) -> dict[str, Any]:
    """Return a specification that holds its legend, as data that Vega passes over.

    Args:
        specification: of Vega-Lite.
        entries: of the legend.
    """
    return specification | {"usermeta": {_META: {"legend": [entry._asdict() for entry in entries]}}}


def legend_of(specification: Mapping[str, Any]) -> list[Entry]:
    """Return the legend that a specification holds."""
    return [Entry(**entry) for entry in specification.get("usermeta", {}).get(_META, {}).get("legend", ())]


def legend_layer(entries: list[Entry], width: float, size: float) -> tuple[dict[str, Any], float]:
    """Return a layer that shows nothing but a legend below the axes, and the height that the legend takes.

    Args:
        entries: at least one.
        width: of the whole figure, in pixels.
        size: of the type, in pixels.
    """
    widest = _SYMBOL + _CHARACTER * size * max(len(entry.label) for entry in entries)
    columns = max(1, min(len(entries), int(width / widest)))
    # Vega takes equal labels for one: no-width spaces keep them apart.
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
