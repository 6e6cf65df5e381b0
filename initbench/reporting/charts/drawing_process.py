"""What `rendering` runs as a process of its own: a line asks for a drawing, and a line answers.

It is run by its path, so that it loads nothing of this package. Its first argument is the version of Vega-Lite. A line
is a form, ``svg``, ``pdf`` or ``png``, a blank and a specification as JSON; its answer as JSON is ``{"drawing": ...}``,
which is in base 64, or ``{"error": ...}``.
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal, and whoever asks decides
    _leave_no_core()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
        for line in sys.stdin.buffer:
            form, _, specification = line.decode().partition(" ")
            try:
                answer = {"drawing": base64.b64encode(_drawn(form, specification)).decode()}
            except Exception as error:  # noqa: BLE001 - whoever asked says so
                answer = {"error": str(error)}
            answers.write(json.dumps(answer).encode() + b"\n")
            answers.flush()


def _drawn(form: str, specification: str) -> bytes:
    import vl_convert  # where it is not installed, that is the answer

    version = sys.argv[1]
    if form == "pdf":  # a pixel is a point
        return bytes(vl_convert.vegalite_to_pdf(specification, vl_version=version))
    if form == "png":  # 72 pixels are an inch
        return bytes(vl_convert.vegalite_to_png(specification, vl_version=version, ppi=_DOTS_PER_INCH))
    return str(vl_convert.vegalite_to_svg(specification, vl_version=version)).encode()


def _leave_no_core() -> None:
    """Let no file of the whole memory lie about where vl-convert ends this process."""
    with suppress(ImportError, OSError, ValueError):  # Windows; a limit that cannot be set
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
