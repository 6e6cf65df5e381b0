"""What Ctrl-C and SIGTERM do to a run: the first ends it in order, the second at once."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from initbench.execution.limits import family

if TYPE_CHECKING:
    from types import FrameType


class Interruption(KeyboardInterrupt):
    """A run is to end.

    Args:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # 130 and 143, as shells have it


def end_in_order() -> None:
    """Let SIGTERM, which SLURM, spot markets and `kill` send, end a run the way Ctrl-C does.

    A second signal ends the process at once, with all that it has started. A Ctrl-C that is ignored, as
    shells have it for what they start in the background, stays so.
    """
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if received:
            for process in set(family(os.getpid())) - {os.getpid()}:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            os._exit(128 + number)
        received.append(number)
        raise Interruption(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)
