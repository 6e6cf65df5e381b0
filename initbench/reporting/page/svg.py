"""A figure's SVG as a part of a page, without what a browser does not need there."""

from __future__ import annotations

import re

from markupsafe import Markup

from initbench.reporting.charts.figure import Figure

_TAG = re.compile(r'<(\w+)(?: [\w:-]+="[^"]*")+/?>')
# From vl-convert: names and roles that role="img" hides, defaults, what style.css says of all figures, and digits below
# a hundredth of a pixel. The page's script shows the labels of marks.
_NEEDLESS = (
    r' (?:class|role|aria-hidden|aria-roledescription|pointer-events)="[^"]*"| (?:opacity|stroke-width)="1"'
    r'| transform="translate\(0,0\)"| font-(?:family="sans-serif"|size="11px"|weight="normal")|(?<=\.\d\d)\d+'
)
_OF_GROUP = re.compile(rf'{_NEEDLESS}| aria-label="[^"]*"')
_OF_TEXT = re.compile(rf'{_NEEDLESS}| fill="currentColor"')
_OF_MARK = re.compile(rf'( aria-label="[^"]*")|{_NEEDLESS}')
_EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"(?: display="none")?/>|<g(?:></g|/)>')


def drawn(figure: Figure) -> Markup:
    """Return a figure's SVG with identifiers that no other figure of the page has."""
    prefix = re.sub(r"\W+", "-", figure.name)
    drawing = _EMPTY.sub("", _TAG.sub(_lean, figure.svg))
    for before in (' id="', "url(#", 'href="#'):
        drawing = drawing.replace(before, f"{before}{prefix}-")
    return Markup(drawing)  # noqa: S704 - the drawings are ours and escape their own text


def _lean(tag: re.Match[str]) -> str:
    match tag[1]:
        case "svg":
            return tag[0]
        case "g":
            return _OF_GROUP.sub("", tag[0])
        case "text":
            return _OF_TEXT.sub("", tag[0])
        case _:
            return _OF_MARK.sub(r"\1", tag[0])
