"""The process that runs trials for a worker, one after another; started by `initbench.execution.trial_process`.

``python -m initbench.execution.trial_child CONNECTION LIFELINE DEVICE``, the first two as numbers of file descriptors.

Whatever a trial starts ends with it: children, those in sessions of their own, and those whose parents have ended. It
runs below two keepers, which run nothing of a user's: they are still there when the trial has crashed.

    worker ── keeper ── keeper ── trial ── what the trial starts

A keeper is given every descendant that loses its parent (PR_SET_CHILD_SUBREAPER of Linux, prctl(2)). It ends them all
when the trial has ended, and the trial too when the worker has. There are two since Ray kills the children of a worker
that ends, hence the first; the second is left, and the other way round where somebody kills the second.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NoReturn

from initbench.execution.processes import family, resident_bytes

if TYPE_CHECKING:
    from initbench.suite.spec import TrialSpec


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


def main(connection: Connection, device: str) -> None:
    """Say ``ready``, then run what comes, and say how far it is and what came of it, until nothing comes any more.

    A trial that leaves processes behind is the last: they end with this process, before another trial runs beside them.
    """
    # Told on the standard error, which the worker reads: where it was when it crashed, and where it hangs.
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    from initbench.execution.environment import known_environment

    here = os.getpid()

    def send(kind: str, value: Any) -> None:
        if os.getpid() != here:  # a copy that a trial made of this process by os.fork, and let go on
            os._exit(1)
        connection.send((kind, value))

    send("ready", {"environment": known_environment(device), "process": here})
    while True:
        try:
            spec, options = connection.recv()
        except EOFError:
            return
        options["tell"] = lambda message: send("note", message)
        options["on_epoch"] = lambda done, epochs: send("progress", (done, epochs))
        text = _attempt(spec, options)
        send("last record" if _has_left_processes() else "record", text)


def _attempt(spec: TrialSpec, options: dict[str, Any]) -> str:
    """Return a trial's record as JSON; whatever is raised comes from the trial: no Ctrl-C reaches this process."""
    from initbench.execution.environment import known_environment
    from initbench.execution.failure import failed_record
    from initbench.execution.trial import attempt_trial
    from initbench.plugins import first_line

    try:
        return json.dumps(attempt_trial(spec, **options).to_json())
    except BaseException as error:  # noqa: BLE001  # see above
        message, here = first_line(error) or "the trial raised it", known_environment(options["device"])
        return json.dumps(failed_record(spec, type(error).__name__, message, traceback.format_exc(), here).to_json())


def _has_left_processes() -> bool:
    """Return whether anything runs beside this process, but for what multiprocessing starts once and keeps."""
    keeper = os.getppid()
    kept = {vars(forkserver._forkserver).get("_forkserver_pid"), vars(resource_tracker._resource_tracker).get("_pid")}  # noqa: SLF001
    beside = set(family(keeper)) - {keeper, os.getpid()} - kept
    return any(map(resident_bytes, beside))  # a process that has ended has no memory


if __name__ == "__main__":
    go_below_keepers(*map(int, sys.argv[1:3]))
    main(Connection(int(sys.argv[1])), sys.argv[3])
