"""Trials in a process of their own, watched by the worker, which survives and records every failure.

A crash (a segmentation fault, a kill by the kernel for lack of memory, ``os._exit``), a hang, or too much memory ends
only this process, and the record says which. All processes of the trial end with it, see
`initbench.execution.trial_child`. Starting a process takes seconds, so it runs many trials. It is replaced if it has
ended, if a trial has left a process running, or if its device no longer computes.
"""

import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from initbench.execution.executor import NO_LIMITS, TRIAL_ENVIRONMENT, Limits
from initbench.execution.failure import MEMORY_LIMIT, TIME_LIMIT, WORKER_LOST, failed_record
from initbench.execution.processes import Outcome, family, memory_of
from initbench.ledger import TrialRecord
from initbench.suite.spec import TrialSpec

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_TO_START = 600.0  # a hundred workers may load libraries from one slow disk
_SECONDS_TO_END = 10.0
_TRACE_BYTES = 20_000


class TrialProcess:
    """A process that runs trials; it is replaced after it has ended."""

    def __init__(self, device: str, limits: Limits = NO_LIMITS, share: float = 1.0) -> None:
        self.device = device
        self.limits = limits
        self.share = share  # of a GPU
        self.environment: dict[str, Any] = {"host": platform.node()}
        self.was_fresh = True  # the last trial was the first of its process
        self._process: subprocess.Popen[bytes] | None = None
        self._used = False
        self._looked = -math.inf  # when the memory was last looked at

    def run(
        self,
        spec: TrialSpec,
        on_epoch: Callable[[int, int], None] | None = None,
        tell: Callable[[str], None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> TrialRecord:
        """Run one trial and return its record, a ``failed`` one if the process ended or exceeded a limit.

        A trial that may have failed because of other trials runs once more in a fresh process.
        """
        record, may_be_hit = self._attempt(spec, on_epoch, tell, options)
        if may_be_hit:
            self.close()
            record, _ = self._attempt(spec, on_epoch, tell, options)
        return record

    def close(self) -> None:
        if self._process is not None:
            self._end()

    def _attempt(
        self,
        spec: TrialSpec,
        on_epoch: Callable[[int, int], None] | None,
        tell: Callable[[str], None] | None,
        options: dict[str, Any] | None,
    ) -> tuple[TrialRecord, bool]:
        """Return the record of an attempt, and whether it may have failed because of other trials."""
        if self._process is None:
            failure = self._start()
            if failure:
                return self._failed(spec, WORKER_LOST, failure), False
        self.was_fresh, self._used = not self._used, True
        try:
            self._connection.send((spec, {"device": self.device} | (options or {})))
        except OSError:
            return self._failed(spec, WORKER_LOST, self._death()), not self.was_fresh
        outcome = self._watch(spec, on_epoch, tell)
        if isinstance(outcome, TrialRecord):
            # The memory that earlier trials left in the process does not count.
            exceeded = outcome.error is not None and outcome.error["type"] == MEMORY_LIMIT
            return outcome, exceeded and not self.was_fresh
        if outcome.is_broken or outcome.has_left_processes:
            self.close()
        # What broke the device may have been an earlier trial of the process, or another process on the same GPU.
        hit = outcome.was_crowded_out or (outcome.is_broken and (not self.was_fresh or 0 < self.share < 1))
        return TrialRecord(**json.loads(outcome.record)), hit

    def _start(self) -> str:
        """Start a process; return why it did not start, or an empty text."""
        self._connection: Connection
        self._connection, theirs = Pipe()
        their_lifeline, self._lifeline = os.pipe()
        self._trace = tempfile.TemporaryFile("a+b")  # noqa: SIM115  # as long as the process
        passed = (theirs.fileno(), their_lifeline)
        self._process = subprocess.Popen(  # noqa: S603  # this program
            [sys.executable, "-m", "initbench.execution.trial_child", *map(str, passed), self.device, str(self.share)],
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            stderr=self._trace,
            start_new_session=True,
            env=TRIAL_ENVIRONMENT | os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        theirs.close()
        os.close(their_lifeline)
        self._used = False
        message = self._next_message(time.monotonic() + _SECONDS_TO_START)
        if message is None:
            return f"a process for the trial did not start: {self._death()}"
        self.environment, self._child = message[1]["environment"], message[1]["process"]
        return ""

    def _watch(
        self, spec: TrialSpec, on_epoch: Callable[[int, int], None] | None, tell: Callable[[str], None] | None
    ) -> Outcome | TrialRecord:
        """Return the outcome that the process reports, or the record of a failure if it ends or exceeds a limit."""
        minutes = self.limits.minutes
        deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
        while True:
            message = self._next_message(deadline)
            if message is None:
                break
            kind, value = message
            if isinstance(value, Outcome):
                self._trace.truncate(0)
                return value
            if kind == "memory":
                limit = f"{value / 1e9:.2f} GB of memory, more than resources.memory_gb: {self.limits.memory_gb:g}"
                return self._failed(spec, MEMORY_LIMIT, f"the trial took {limit}")
            if kind == "note" and tell:
                tell(value)
            if kind == "progress" and on_epoch:
                on_epoch(*value)
        if time.monotonic() >= deadline and self._running():
            self._tell_where()
            limit = f"the trial took longer than resources.minutes: {minutes:g}"
            return self._failed(spec, TIME_LIMIT, f"{limit}; the traceback says where it was")
        return self._failed(spec, WORKER_LOST, self._death())

    def _next_message(self, deadline: float) -> tuple[str, Any] | None:
        """Return the next message of the process, or ``("memory", bytes)``; None if it has ended or at the deadline."""
        assert self._process is not None
        most = math.inf if self.limits.memory_gb is None else self.limits.memory_gb * 1e9
        while True:
            # Between messages too: they may come faster than the looks.
            if self._used and most < math.inf and time.monotonic() - self._looked >= _SECONDS_BETWEEN_LOOKS:
                self._looked = time.monotonic()
                if (memory := memory_of(self._process.pid, most)) > most:
                    return "memory", memory
            left = deadline - time.monotonic()
            try:
                if self._connection.poll(max(0.0, min(_SECONDS_BETWEEN_LOOKS, left))):
                    message: tuple[str, Any] = self._connection.recv()
                    return message
            except (EOFError, OSError):
                return None
            # A descendant may hold the connection open.
            if left <= 0 or not self._running():
                return None

    def _running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _tell_where(self) -> None:
        """Make the process write the tracebacks of its threads."""
        with suppress(ProcessLookupError):
            os.kill(self._child, signal.SIGUSR1)
        before = -1
        for _ in range(20):  # it takes milliseconds; a stopped process does not answer
            time.sleep(0.05)
            size = os.fstat(self._trace.fileno()).st_size
            if size == before and size:
                return
            before = size

    def _death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return "it no longer answers"
        if code >= 0:
            return f"the trial's process exited with code {code}"
        name = signal.Signals(-code).name
        reason = ", as the kernel does if memory runs out" if -code == signal.SIGKILL else ""
        return f"the trial's process died of {name}{reason}"

    def _failed(self, spec: TrialSpec, kind: str, message: str) -> TrialRecord:
        """Return the record of a failure, after ending the process."""
        return failed_record(spec, kind, message, self._end(), self.environment)

    def _end(self) -> str:
        """End the process and its descendants; return the last part of its standard error."""
        assert self._process is not None
        os.close(self._lifeline)  # the keepers then kill the processes below them
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:  # the keepers are stopped, or the system cannot end a process
            for process in list(family(self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()
        self._process = None
        self._connection.close()
        with self._trace as trace:
            size = os.fstat(trace.fileno()).st_size
            trace.seek(max(0, size - _TRACE_BYTES))
            return trace.read().decode(errors="replace")
