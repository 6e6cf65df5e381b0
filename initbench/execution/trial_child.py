"""The process that runs trials for a worker, one after another; started by `initbench.execution.trial_process`.

``python -m initbench.execution.trial_child CONNECTION LIFELINE DEVICE SHARE``; the first two are file descriptors, and
the last is the share of a GPU's memory that the trials may use.

All processes that a trial starts end with it: children, processes in other sessions, and orphans. For this the trial
runs below two keepers, which run no user code and so survive a crash of the trial:

    worker ── keeper ── keeper ── trial ── processes of the trial

A keeper becomes the parent of every orphaned descendant (PR_SET_CHILD_SUBREAPER of Linux, prctl(2)). It kills them all
when the trial has ended, and also the trial when the worker has. There are two because Ray kills the children of a
worker that ends, which is the first keeper; the second remains, and if somebody kills the second, the first remains.
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

from initbench.execution.processes import Outcome, family, resident_bytes

if TYPE_CHECKING:
    from initbench.suite.spec import TrialSpec


_PR_SET_CHILD_SUBREAPER = 36  # of <linux/prctl.h>


def go_below_keepers(connection: int, lifeline: int) -> None:
    """Return in a process below two keepers. The calling process becomes the first, and ends as that process does.

    The keepers close the file descriptor `connection`, so that it ends with the process. `lifeline` is the reading end
    of a pipe whose other end is open as long as the worker lives.
    """
    for _ in range(2):
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        child = os.fork()
        if child:
            os.close(connection)
            _keep(child, lifeline)
        os.setsid()  # a signal to one process group does not reach the others
    os.close(lifeline)


def _keep(child: int, lifeline: int) -> NoReturn:
    threading.Thread(target=_end_with, args=(lifeline, child), daemon=True).start()
    ended, status = os.wait()
    while ended != child:  # an orphan
        ended, status = os.wait()
    _kill_group(child)
    _end_all_below()
    _leave_as(os.waitstatus_to_exitcode(status))


def _end_with(lifeline: int, child: int) -> None:
    os.read(lifeline, 1)
    _kill_group(child)


def _kill_group(leader: int) -> None:
    """Kill a process and its group; without /proc, other descendants cannot be found."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(leader, signal.SIGKILL)


def _end_all_below() -> None:
    """Kill the descendants until there are none: orphans become children of this process meanwhile."""
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
    """Exit with a code or, if it is negative, by a signal, as in `subprocess.Popen.returncode`."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        signal.raise_signal(-code)
    os._exit(abs(code))


def main(connection: Connection, device: str, share: float) -> None:
    """Send ``ready``; then run each trial that is received and send its progress and its `Outcome`."""
    # Prints the traceback of a crash or a hang on the standard error, which the worker reads.
    faulthandler.enable(all_threads=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    from initbench.execution import worker_device
    from initbench.execution.environment import known_environment

    here = os.getpid()

    def send(kind: str, value: Any) -> None:
        if os.getpid() != here:  # a copy of this process that a trial made with os.fork
            os._exit(1)
        connection.send((kind, value))

    with suppress(Exception):  # on a broken device, each trial fails with the reason
        worker_device.limit_memory(device, share)
        worker_device.compute(device)
    send("ready", {"environment": known_environment(device), "process": here})
    while True:
        try:
            spec, options = connection.recv()
        except EOFError:
            return
        options["tell"] = lambda message: send("note", message)
        options["on_epoch"] = lambda done, epochs: send("progress", (done, epochs))
        text, error = _attempt(spec, options)
        crowded_out = bool(error) and worker_device.was_crowded_out(device, share, error)
        worker_device.release_memory(device)
        is_broken = bool(error) and worker_device.problem(device) is not None
        send("outcome", Outcome(text, is_broken, crowded_out, _has_left_processes()))


def _attempt(spec: TrialSpec, options: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a trial's record as JSON, and its error. All exceptions are the trial's: Ctrl-C does not arrive here."""
    from initbench.execution.environment import known_environment
    from initbench.execution.failure import failed_record
    from initbench.execution.trial import attempt_trial
    from initbench.plugins import first_line

    try:
        record = attempt_trial(spec, **options)
        return json.dumps(record.to_json()), record.error or {}
    except BaseException as error:  # noqa: BLE001  # see above
        message, here = first_line(error) or "the trial raised it", known_environment(options["device"])
        record = failed_record(spec, type(error).__name__, message, traceback.format_exc(), here)
        return json.dumps(record.to_json()), record.error or {}


def _has_left_processes() -> bool:
    """Return whether other processes run below this one, except those that multiprocessing starts once and keeps."""
    keeper = os.getppid()
    kept = {vars(forkserver._forkserver).get("_forkserver_pid"), vars(resource_tracker._resource_tracker).get("_pid")}  # noqa: SLF001
    beside = set(family(keeper)) - {keeper, os.getpid()} - kept
    return any(map(resident_bytes, beside))  # an ended process has no memory


if __name__ == "__main__":
    go_below_keepers(*map(int, sys.argv[1:3]))
    main(Connection(int(sys.argv[1])), sys.argv[3], float(sys.argv[4]))
