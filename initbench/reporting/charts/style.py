"""How charts look: colours, shapes, dashes and sizes, on a page and on paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from initbench.comparing.formatting import natural

# Distinct with any common colour blindness, on white and on dark ground (Okabe and Ito without black and yellow, then
# olive, violet, grey and brown). Further labels begin again, with dashed lines.
PALETTE = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999933", "#8a63d2", "#8c8c8c", "#a0522d",
)  # fmt: skip
DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3))
# Labels differ by shape, too: seven shapes and ten colours have no common factor, so 70 labels differ. The triangle
# that points up marks what diverged.
SHAPES = ("circle", "square", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
DIVERGED = "triangle-up"

PAGE_INK = "currentColor"  # text and axes in a page, which has a light and a dark form
PAPER_INK = "#1c2430"  # text and axes on white ground
PIXELS_PER_INCH = 72  # of a drawing for paper: a pixel is a point, the unit of type
WIDTH, HEIGHT = 300, 220  # of a page's panel without its axes, in pixels
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first comes with vl-convert: alike on every machine

LINE, THIN_LINE = 2, 1.2  # widths in pixels
THIN_DASH = (4, 2)  # of lines that are compared with solid ones: train with test, before with after

_LONGEST_NAME = 280  # px of a name beside an axis
_LARGEST_NAME = 0.4  # of a paper's figure


class Style(NamedTuple):
    """How a label is drawn in every figure of a report."""

    colour: str  # as #rrggbb
    dash: tuple[int, ...]  # lengths on and off; empty for a solid line
    shape: str  # of its points, by Vega's name


def colours(labels: Iterable[str]) -> dict[str, str]:
    """Return a colour for each label, in natural order of the labels, usually all treatments of a report."""
    names = sorted(set(labels), key=natural)
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def styles(colours: Mapping[str, str]) -> dict[str, Style]:
    """Return the style of each label by its position in `colours`."""
    return {
        name: Style(colour, DASHES[i // len(PALETTE) % len(DASHES)], SHAPES[i % len(SHAPES)])
        for i, (name, colour) in enumerate(colours.items())
    }


def between(stops: Sequence[str], position: float) -> str:
    """Return the colour at a position from 0 to 1 of a ramp through colours at equal distances, all as ``#rrggbb``."""
    index = min(int(position * (len(stops) - 1)), len(stops) - 2)
    share = position * (len(stops) - 1) - index
    pairs = zip(_channels(stops[index]), _channels(stops[index + 1]), strict=True)
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def ink_on(ground: str) -> str:
    """Return white or black, whichever has more contrast on a colour."""
    return max("#ffffff", "#000000", key=lambda ink: contrast(ground, ink))


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [value / 255 for value in _channels(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def page_config() -> dict[str, Any]:
    """Return Vega's configuration for a drawing in a page: its text and axes have the page's colour."""
    return _config(PAGE_INK, label=11, title=12) | {"background": "transparent"}


def paper_config(width: float) -> dict[str, Any]:
    """Return Vega's configuration for a drawing in a paper: dark on white, with type of 8 and 9 points.

    Names that take too much of the figure's width, in pixels, are cut.
    """
    config = _config(PAPER_INK, label=8, title=9) | {"background": "#ffffff", "font": FONT}
    config["axis"]["labelLimit"] = min(_LONGEST_NAME, _LARGEST_NAME * width)
    config["title"] = {"color": PAPER_INK, "fontSize": 10, "fontWeight": "normal", "anchor": "start", "offset": 6}
    config["legend"] = {"labelColor": PAPER_INK, "labelFontSize": 8, "symbolSize": 45, "offset": 6}
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
