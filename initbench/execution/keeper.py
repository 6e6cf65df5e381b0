"""Whatever a trial starts ends with it: children, those in sessions of their own, and those whose parents have ended.

The trial runs below two keepers, which run nothing of a user's: they are still there when the trial has crashed.

    worker ── keeper ── keeper ── trial ── what the trial starts

A keeper is given every descendant that loses its parent (PR_SET_CHILD_SUBREAPER of Linux, prctl(2)). It ends them all
when the trial has ended, and the trial too when the worker has. There are two since Ray kills the children of a worker
that ends, hence the first; the second is left, and the other way round where somebody kills the second.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

from initbench.execution.limits import family

_PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>


def go_below_keepers(connection: int, lifeline: int) -> None:
    """Return in a process below two keepers. The calling process becomes the first, and ends the way that one does.

    Args:
        connection: a file descriptor that the keepers close, so that it ends with the process.
        lifeline: the reading end of a pipe whose other end is open as long as the worker lives.
    """
    for _ in range(2):
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        child = os.fork()
        if child:
            os.close(connection)
            _keep(child, lifeline)
        os.setsid()  # a signal to the process group of one does not reach the others
    os.close(lifeline)


def _keep(child: int, lifeline: int) -> NoReturn:
    threading.Thread(target=_end_with, args=(lifeline, child), daemon=True).start()
    ended, status = os.wait()
    while ended != child:  # one that had lost its parent
        ended, status = os.wait()
    _kill_group(child)
    _end_all_below()
    _leave_as(os.waitstatus_to_exitcode(status))


def _end_with(lifeline: int, child: int) -> None:
    os.read(lifeline, 1)
    _kill_group(child)


def _kill_group(leader: int) -> None:
    """Kill a process and its group. Without /proc, that is all of its descendants that can be found."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(leader, signal.SIGKILL)


def _end_all_below() -> None:
    """Kill the descendants until there are none: each that loses its parent meanwhile is given to this process."""
    here = os.getpid()
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        below = set(family(here)) - {here}
        if not below:
            return
        for process in below:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.002)


def _leave_as(code: int) -> NoReturn:
    """End with an exit code, or by a signal if it is negative, as `subprocess.Popen.returncode` has it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        signal.raise_signal(-code)
    os._exit(abs(code))
