"""From a specification to a drawing, by vl-convert in a process of its own.

vl-convert 1.9.0 holds Python's lock while it draws, and ends its process if something unexpected happens, such as a
lack of memory. In another process it draws beside the rest of a report, and only the figure itself is lost.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, Timer
from typing import Any, Literal

from initbench.errors import InitbenchError
from initbench.reporting.plain_data import plain_data
from initbench.visible_text import cut, visible

MOST_SECONDS = 120.0
"""For one drawing, which usually takes a tenth of a second."""
_VERSION = "5.20"  # of Vega-Lite: every vl-convert from 1.7 on has it
_MOST_DEATHS = 3  # in a row: then the figures are not the cause
_MOST_CHARACTERS = 150  # of vl-convert's message
_SECONDS_TO_END = 5.0
_SCRIPT = Path(__file__).with_name("drawing_process.py")

Form = Literal["svg", "pdf", "png"]


class UndrawableError(InitbenchError):
    """A figure cannot be drawn; the message says why in a few words."""


def draw(specification: Mapping[str, Any], form: Form = "svg") -> bytes:
    """Return a drawing; equal specifications give equal SVGs.

    72 pixels of the specification are an inch of a PDF, which holds its fonts, and 300 dots of a PNG.

    Raises:
        UndrawableError: it cannot be drawn.
    """
    return begin(specification, form).result()


def begin(specification: Mapping[str, Any], form: Form = "svg") -> Future[bytes]:
    """Begin to draw in the other process, and return the future drawing, or `UndrawableError`.

    Invisible characters in texts are made visible, and numbers that are not finite become null. An SVG is UTF-8.
    """
    text = json.dumps(plain_data(specification), allow_nan=False, ensure_ascii=False)
    return _drawing().submit(f"{form} {text}")


def warm_up() -> None:
    """Start the other process and load Vega there, which takes a second, before there is anything to draw."""
    begin({"mark": "point"})


class _Drawing:
    """The process that draws one figure after the other, and the thread that waits for it.

    A process that dies is started again for the next figure, until several have died in a row without a drawing.
    """

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[Future[bytes], str] | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0  # in a row
        self._death = ""
        self._is_closed = False
        # A daemon: when Python ends, nobody wants the drawings that are left.
        self._thread = Thread(target=self._work, name="figures", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def submit(self, request: str) -> Future[bytes]:
        """Return the future answer to a request, which is a line as `drawing_process` reads it."""
        future: Future[bytes] = Future()
        self._requests.put((future, request))
        return future

    def close(self) -> None:
        """End the process and the thread without drawing what is left."""
        self._is_closed = True
        self._requests.put(None)
        if (process := self._process) is not None:
            process.kill()
        self._thread.join(_SECONDS_TO_END)

    def _work(self) -> None:
        while (item := self._requests.get()) is not None and not self._is_closed:
            future, request = item
            try:
                future.set_result(self._drawn(request))
            except Exception as error:  # noqa: BLE001 - raised where the drawing is wanted
                future.set_exception(error)
        self._end()

    def _drawn(self, request: str) -> bytes:
        if self._deaths < _MOST_DEATHS:
            try:
                answer = self._answer(request)
            except (OSError, RuntimeError) as death:  # no memory, no thread
                self._deaths += 1
                self._death = f"the drawing process {death}"
            else:
                self._deaths = 0
                if "error" in answer:
                    raise UndrawableError(cut(visible(" ".join(answer["error"].split())), _MOST_CHARACTERS))
                return base64.b64decode(answer["drawing"])
        raise UndrawableError(self._death)

    def _answer(self, request: str) -> dict[str, str]:
        """Return what the process answers.

        Raises:
            OSError: the process cannot be started, died, or took too long. The message continues "the drawing process".
        """
        process = self._running()
        assert process.stdin
        assert process.stdout
        line, begun = b"", time.monotonic()
        timer = Timer(MOST_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        with suppress(OSError):  # the process has died
            process.stdin.write(request.encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        timer.cancel()
        if line.endswith(b"\n"):
            answer: dict[str, str] = json.loads(line)
            return answer
        took = time.monotonic() - begun
        code = self._end()
        raise ChildProcessError(f"took more than {MOST_SECONDS:g} seconds" if took > MOST_SECONDS else _ending(code))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._end()  # it died between two drawings
        if self._process is None:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - Python itself, and a file of this package
                    [sys.executable, "-P", _SCRIPT, _VERSION],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                raise ChildProcessError(f"cannot be started: {error.strerror}") from error
        return self._process

    def _end(self) -> int:
        """End the process, if there is one, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        process.communicate()
        return process.returncode


def _ending(code: int) -> str:
    if code >= 0:
        return f"left with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"died of {name}"


def _drawing() -> _Drawing:
    return _drawing_of(os.getpid())  # a fork has none of the threads of its parent


@cache
def _drawing_of(process: int) -> _Drawing:
    return _Drawing()
