"""What Ctrl-C and SIGTERM do to a run: the first ends it in order, the second at once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from initbench.execution.limits import family

if TYPE_CHECKING:
    from types import FrameType


# Ray raises an interruption of its own in the place of the one that a handler raises, so the signal is kept here.
_received: list[int] = []


def exit_code() -> int:
    """Return the exit code of an interrupted run, as shells have it: 143 after SIGTERM, else 130."""
    return 128 + next(iter(_received), signal.SIGINT)


def end_in_order() -> None:
    """Let SIGTERM, which SLURM, spot markets and `kill` send, end a run the way Ctrl-C does.

    A second signal ends the process at once, with all that it has started. A Ctrl-C that is ignored, as
    shells have it for what they start in the background, stays so.
    """
    _received.clear()

    def handle(number: int, _: FrameType | None) -> None:
        if _received:
            for process in set(family(os.getpid())) - {os.getpid()}:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            os._exit(128 + number)
        _received.append(number)
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
