"""From a specification to a drawing, by vl-convert."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
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

    vl-convert holds Python's lock while it draws (1.9.0). So it draws in a process of its own: on a second core a
    report's figures cost no time of their own. Where there is no such process, they are drawn in this one.
    """
    return _drawing().submit(specification)


class _Drawing:
    """A process that draws one figure after the other, and the thread that waits for it."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("drawing_process.py"))
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="figures")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - Python itself, and a file of this package
                [sys.executable, "-P", script, _VERSION],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return
        atexit.register(self._process.communicate)

    def submit(self, specification: Mapping[str, Any]) -> Future[str]:
        """Return what will hold the drawing."""
        return self._thread.submit(self._drawn, specification)

    def _drawn(self, specification: Mapping[str, Any]) -> str:
        found = self._answer(_text(specification))
        return to_svg(specification) if found is None else found

    def _answer(self, text: str) -> str | None:
        """Return the drawing; None where the process has ended or cannot draw it."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return None
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return None
        line = self._process.stdout.readline()
        answer: str | None = json.loads(line) if line.endswith(b"\n") else None
        return answer


@cache
def _drawing() -> _Drawing:
    return _Drawing()


def _text(specification: Mapping[str, Any]) -> str:
    return json.dumps(specification, allow_nan=False, ensure_ascii=False)
