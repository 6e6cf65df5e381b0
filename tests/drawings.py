"""Drawings read back."""

import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

from initbench.reporting.charts.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"


class Mark(NamedTuple):
    """A mark: its place, its outline, its colour and how it is filled."""

    x: float
    y: float
    outline: str
    fill: str | None
    fill_opacity: float
    stroke: str | None
    size: float


def parsed(drawing):
    """Return the root of an SVG that the code under test has just drawn."""
    return ET.fromstring(drawing)  # noqa: S314  # no text from outside


def drawn(specification, alt="Finding."):
    """Return the SVG of a chart's specification, as a page shows it."""
    return Figure("figure", "Title", alt, specification).svg


def marks_of(svg):
    """Return the marks of a drawing: words → mark."""
    found = {}
    for path in parsed(svg).iter(f"{SVG}path"):
        if path.get("aria-roledescription") == "point" and path.get("aria-label"):
            x, y = re.search(r"translate\(([-\d.e]+),([-\d.e]+)\)", path.get("transform")).groups()
            numbers = [abs(float(n)) for n in re.findall(r"-?\d+\.?\d*", path.get("d"))]
            outline = "circle" if "A" in path.get("d") else path.get("d")
            found[path.get("aria-label")] = Mark(
                float(x),
                float(y),
                outline,
                path.get("fill"),
                float(path.get("fill-opacity", 1)),
                path.get("stroke"),
                max(numbers),
            )
    return found


def lines_of(svg):
    """Return the lines of a drawing: (colour, dash, width, points) of each."""
    found = []
    for path in parsed(svg).iter(f"{SVG}path"):
        if path.get("stroke", "").startswith("#") and not path.get("aria-label") and path.get("fill") is None:
            points = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([-\d.e]+),([-\d.e]+)", path.get("d"))]
            dash = tuple(map(float, (path.get("stroke-dasharray") or "").replace(",", " ").split()))
            found.append((path.get("stroke"), dash, float(path.get("stroke-width")), points))
    return found


def bands_of(svg):
    """Return the colours of a drawing's bands."""
    paths = parsed(svg).iter(f"{SVG}path")
    return [path.get("fill") for path in paths if path.get("opacity") == "0.14"]
