"""From a specification to a drawing, by vl-convert."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = "5.20"  # of Vega-Lite: every vl-convert from 1.7 on has it
_DOTS_PER_INCH = 300


def to_svg(specification: Mapping[str, Any]) -> str:
    """Return a drawing as SVG; equal specifications give equal text."""
    import vl_convert  # not before something is drawn

    return str(vl_convert.vegalite_to_svg(_text(specification), vl_version=_VERSION))


def to_pdf(specification: Mapping[str, Any]) -> bytes:
    """Return a drawing as a page of PDF in which a pixel is a point, with the fonts that it uses."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_pdf(_text(specification), vl_version=_VERSION))


def to_png(specification: Mapping[str, Any]) -> bytes:
    """Return a drawing as PNG at 300 dots per inch, where 72 pixels of the specification are an inch."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_text(specification), vl_version=_VERSION, ppi=_DOTS_PER_INCH))


def begin(specification: Mapping[str, Any]) -> Future[str]:
    """Begin to draw beside what else is done, and return what will hold the SVG.

    vl-convert has one engine, which frees Python while it draws: on a second core a report's figures cost no time of
    their own, and more threads than one would only wait for one another.
    """
    return _engine().submit(to_svg, specification)


@cache
def _engine() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="figures")


def _text(specification: Mapping[str, Any]) -> str:
    return json.dumps(specification, allow_nan=False, ensure_ascii=False)
