"""Ctrl-C and SIGTERM: while a command works, the first ends it in order; otherwise, and the second time, at once."""

from __future__ import annotations

import _thread
import inspect
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from initbench.execution.processes import leave

_SECONDS_UNTIL_AGAIN = 0.05
_BEFORE = b"initbench: interrupted before anything was run or written\n"


class _State:
    received: int | None = None  # the first signal; Ray replaces the handler's interruption by its own
    has_begun = False  # whether a command has started to work
    is_at_work = False  # whether a command is working now
    is_due = False  # whether the first signal is being delivered again


_state = _State()


def install() -> None:
    """Handle Ctrl-C and SIGTERM, which SLURM, spot markets and `kill` send; call it in the main thread.

    An ignored signal stays ignored, as shells ignore Ctrl-C for background processes.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _handle)
    sys.unraisablehook = _unraisable


def begin_work() -> None:
    """From now on the first signal raises a KeyboardInterrupt, so that the work ends in order."""
    _state.has_begun = _state.is_at_work = True


def end_work() -> None:
    """From now on a signal ends the process at once again."""
    _state.is_at_work = False


def interrupted() -> bool:
    return _state.received is not None


def is_terminated() -> bool:
    return _state.received == signal.SIGTERM


def exit_code() -> int:
    """Return the exit code of an interrupted command as in shells: 143 after SIGTERM, else 130."""
    return 128 + (_state.received or signal.SIGINT)


def _handle(number: int, frame: FrameType | None) -> None:
    is_again, _state.is_due = _state.is_due, False
    if not is_again:
        if not _state.has_begun and sys.__stderr__ is not None:
            with suppress(OSError):
                os.write(2, _BEFORE)
        if _state.received is not None:
            leave(128 + number)
        _state.received = number
    if not _state.is_at_work:
        leave(exit_code())
    if _is_importing(frame or inspect.currentframe()):
        _deliver_again(number)
    else:
        raise KeyboardInterrupt(signal.Signals(number).name)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported.

    An exception during an import may leave half a module, or abort the process if it passes through C++, as in torch.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            return True
        frame = frame.f_back
    return False


def _deliver_again(number: int) -> None:
    main = threading.main_thread().ident
    assert main is not None

    def deliver() -> None:
        time.sleep(_SECONDS_UNTIL_AGAIN)
        _state.is_due = True
        signal.pthread_kill(main, number)  # a real signal: it wakes the thread from a wait

    _thread.start_new_thread(deliver, ())  # a signal handler must not wait for the locks of `threading.Thread`


def _unraisable(given: sys.UnraisableHookArgs, /) -> None:
    """Deliver an interruption again if Python could not raise it, for example in a finalizer."""
    if isinstance(given.exc_value, KeyboardInterrupt) and _state.received is not None:
        _deliver_again(_state.received)
    else:
        sys.__unraisablehook__(given)
