"""The process that draws for `rendering`: it answers each line of its input with a line.

It is run by its path, so that it loads nothing of this package. Its first argument is the version of Vega-Lite. A line
is a form, ``svg``, ``pdf`` or ``png``, a blank and a specification as JSON; the answer is ``{"drawing": ...}`` in base
64, or ``{"error": ...}``.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from contextlib import suppress

_DOTS_PER_INCH = 300


def main() -> None:
    """Answer each line until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent decides
    _leave_no_core()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print
        for line in sys.stdin.buffer:
            form, _, specification = line.decode().partition(" ")
            try:
                answer = {"drawing": base64.b64encode(_drawn(form, specification)).decode()}
            except Exception as error:  # noqa: BLE001 - the parent raises it
                answer = {"error": str(error)}
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


def _drawn(form: str, specification: str) -> bytes:
    import vl_convert  # inside, so that its absence is an answer

    version = sys.argv[1]
    if form == "pdf":  # a pixel is a point
        return bytes(vl_convert.vegalite_to_pdf(specification, vl_version=version))
    if form == "png":  # 72 pixels are an inch
        return bytes(vl_convert.vegalite_to_png(specification, vl_version=version, ppi=_DOTS_PER_INCH))
    return str(vl_convert.vegalite_to_svg(specification, vl_version=version)).encode()


def _leave_no_core() -> None:
    """Write no core file when vl-convert aborts this process."""
    with suppress(ImportError, OSError, ValueError):  # Windows; a limit that cannot be set
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
