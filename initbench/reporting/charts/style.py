"""How charts look: colours, shapes, dashes and sizes, on a page and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.comparing.formatting import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Told apart with any common colour blindness, and on white and on dark ground (Okabe and Ito without black and
# yellow, then olive, violet, grey and brown). Further labels begin again, with dashed lines.
PALETTE = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999933", "#8a63d2", "#8c8c8c", "#a0522d",
)  # fmt: skip
DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3))
# No colour stands alone. Seven shapes and ten colours have no common factor: 70 labels differ. The triangle that points
# up is none of them: it marks what diverged.
SHAPES = ("circle", "square", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
DIVERGED = "triangle-up"

INK = "#1c2430"  # text and axes on white ground
PIXELS_PER_INCH = 72  # of a drawing for paper: a pixel is a point, so that sizes of type are what they say
WIDTH, HEIGHT = 300, 220  # of a page's panel without its axes, in pixels
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first comes with vl-convert: alike on every machine

LINE, THIN_LINE, BAND = 2, 1.2, 0.14  # widths in pixels, and the opacity of a band
THIN_DASH = (4, 2)  # of what is compared with a solid line: train with test, before with after

_LONGEST_NAME = 280  # px of a name beside an axis
_LARGEST_NAME = 0.4  # of a paper's figure


class Style(NamedTuple):
    """How a label is drawn wherever it stands.

    Attributes:
        colour: as ``#rrggbb``.
        dash: lengths on and off; empty for a solid line.
        shape: of its points, by Vega's name.
    """

    colour: str
    dash: tuple[int, ...]
    shape: str


def colours(labels: Iterable[str]) -> dict[str, str]:
    """Return a colour for each label, in natural order of the labels.

    Args:
        labels: such as those of all treatments of a report.
    """
    names = sorted(set(labels), key=natural)
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def styles(colours: Mapping[str, str]) -> dict[str, Style]:
    """Return the style of each label, which its place in the order decides.

    Args:
        colours: of all labels, as from `colours`.
    """
    return {
        name: Style(colour, DASHES[i // len(PALETTE) % len(DASHES)], SHAPES[i % len(SHAPES)])
        for i, (name, colour) in enumerate(colours.items())
    }


def page_config() -> dict[str, Any]:
    """Return Vega's configuration for a drawing in a page: its text and axes have the page's colour."""
    return _config("currentColor", label=11, title=12) | {"background": "transparent"}


def paper_config(width: float) -> dict[str, Any]:
    """Return Vega's configuration for a drawing in a paper: dark on white, with type of 8 and 9 points.

    Args:
        width: of the whole figure, in pixels; names that take too much of it are cut.
    """
    config = _config(INK, label=8, title=9) | {"background": "#ffffff", "font": FONT}
    config["axis"]["labelLimit"] = min(_LONGEST_NAME, _LARGEST_NAME * width)
    config["title"] = {"color": INK, "fontSize": 10, "fontWeight": "normal", "anchor": "start", "offset": 6}
    config["legend"] = {"labelColor": INK, "labelFontSize": 8, "symbolSize": 45, "offset": 6}
    config["legend"]["labelLimit"] = width - 60
    return config


def _config(ink: str, label: float, title: float) -> dict[str, Any]:
    axis = {
        **{f"{part}Color": ink for part in ("label", "title", "domain", "tick", "grid")},
        "gridOpacity": 0.12,
        "titleFontWeight": "normal",
        "labelFontSize": label,
        "labelLimit": _LONGEST_NAME,
        "titleFontSize": title,
    }
    return {
        "axis": axis,
        "view": {"stroke": ink, "strokeOpacity": 0.25},
        "text": {"fontSize": label},
        "style": {"note": {"fontSize": label - 1.5}},
    }
