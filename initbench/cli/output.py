"""What the command line prints: whatever becomes of those who read it, the command goes on."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from initbench.visible_text import visible

_READER_IS_GONE = {errno.EPIPE, errno.ECONNRESET, errno.EIO}  # a pipe, a socket, a terminal


class OutputStream:
    """A standard stream on which a failed write is no error: from then on nothing more is printed there.

    It is None if it is closed. `failure` says why it could not be written, such as a full disk; it stays None if its
    reader has left, who knows.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream = stream or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # it takes the stream's place
        self._name = name
        self.failure: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what its encoding lacks, such as `·` in ASCII

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        with suppress(OSError):  # what waits in the buffer goes nowhere, or Python would complain of it in the end
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if error.errno not in _READER_IS_GONE and self.failure is None:
            self.failure = error
            say(f"initbench: {self._name} cannot be written: {error.strerror}", to_stderr=True)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Keep a failed write on a standard stream from ending the block; if all else went well, exit with code 2."""
    before = sys.stdout, sys.stderr
    streams = OutputStream(sys.stdout, "the standard output"), OutputStream(sys.stderr, "the standard error")
    sys.stdout, sys.stderr = cast("tuple[TextIO, TextIO]", streams)
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before
    if any(stream.failure for stream in streams):
        sys.exit(2)


def say(line: str, *, to_stderr: bool = False, keep: str = "", end: str = "\n") -> None:
    """Print a line of any origin, such as a record, an exception or the name of a file: it cannot steer a terminal.

    Characters that are none to look at are escaped, but for those in `keep`, such as the newlines of a text.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    stream.write(visible(line, keep) + end)
    stream.flush()


def say_json(text: str) -> None:
    """Print JSON, in which the same characters are escaped as JSON has it; all of them stand in strings."""
    if visible(text, keep="\n") != text:
        text = "".join(one if visible(one, keep="\n") == one else f"\\u{ord(one):04x}" for one in text)
    sys.stdout.write(text)
    sys.stdout.flush()
