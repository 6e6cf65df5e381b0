"""The output of the command line: a reader that leaves, or a full disk, does not stop the command."""

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
    """A standard stream that prints nothing more after a failed write, instead of raising an error.

    A closed stream is None. `failure` says why writing failed, for example a full disk; it stays None if the reader has
    closed the pipe.
    """

    def __init__(self, stream: TextIO | None, name: str) -> None:
        self._stream = stream or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # it takes the stream's place
        self._name = name
        self.failure: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the encoding lacks, such as `·` in ASCII

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
        with suppress(OSError):  # discards the buffer, which Python would otherwise complain about at exit
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if error.errno not in _READER_IS_GONE and self.failure is None:
            self.failure = error
            say(f"initbench: {self._name} cannot be written: {error.strerror}", to_stderr=True)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Keep a failed write on a standard stream from ending the block; exit with code 2 if that was the only failure."""
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
    """Print a line of any origin, such as a record, an exception or a file name; it cannot control the terminal.

    Control characters are escaped, except those in `keep`, such as the newlines of a text.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    stream.write(visible(line, keep) + end)
    stream.flush()


def duration(seconds: float) -> str:
    """Return seconds in words: ``8.3 s``, ``4 min 10 s``, ``3 h 20 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def say_json(text: str) -> None:
    """Print JSON; control characters, which occur only in strings, are escaped as in JSON."""
    if visible(text, keep="\n") != text:
        text = "".join(one if visible(one, keep="\n") == one else f"\\u{ord(one):04x}" for one in text)
    sys.stdout.write(text)
    sys.stdout.flush()
