"""A thread that writes to MLflow."""

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from initbench.comparing.formatting import counted
from initbench.ledger import Ledger, TrialRecord
from initbench.plugins import first_line
from initbench.tracking import mlflow
from initbench.tracking.uri import shown_uri, without_secrets

_SECONDS_UNTIL_ASKED_AGAIN = 30.0


class _Write(NamedTuple):
    """Something to write; for a trial, ``number`` counts the trials that were put."""

    call: Callable[[mlflow.MlflowTracker], object]
    number: int = 0
    trial: str | None = None


class TrackingThread:
    """A thread that owns a `MlflowTracker` and does what it is given, in order.

    Importing MLflow and creating the store, which takes seconds, happen in the thread. A failure here stops no suite,
    because the ledger is the truth: errors are kept for `close` and `close_by`, and ``initbench sync`` repairs. A store
    that does not answer is asked again only after a while; ``initbench sync`` writes the rest.
    """

    def __init__(self, folder: str | Path, uri: str, suite_name: str) -> None:
        self._folder = folder
        self._uri = uri
        self._suite_name = suite_name
        self._writes: queue.Queue[_Write | None] = queue.Queue()
        self._deadline = math.inf
        self._errors: list[str] = []
        self._done = 0
        # The number of each trial's last write, as put and as written. A trial is put again if its label changes.
        self._put: dict[str, int] = {}
        self._written: dict[str, int] = {}
        # A daemon, because a hanging store must not keep the process alive after `close` has given up. At its end
        # Python would wait for the threads of a ThreadPoolExecutor.
        self._thread = threading.Thread(target=self._work, name="initbench-tracking", daemon=True)
        self._thread.start()

    def put(self, record: TrialRecord, labels: Mapping[str, str]) -> None:
        """Have a trial written by `MlflowTracker.log`, as the ledger then has it.

        Only ids are queued, in case MLflow falls behind by thousands of trials.
        """
        ledger, trial_id = Ledger(self._folder), record.id
        number = self._put[trial_id] = self._put.get(trial_id, 0) + 1
        kept = None if ledger.path(trial_id).exists() else record
        write = _Write(lambda tracker: tracker.log(kept or ledger.read(trial_id), labels), number, trial_id)
        self._writes.put(write)

    def put_suite(self) -> None:
        self._writes.put(_Write(lambda tracker: tracker.log_suite()))

    def close(self, timeout: float = 60.0) -> list[str]:
        """Wait until everything is written; give up once nothing was written for `timeout` seconds.

        Return one line with the error and the way to repair it, or nothing. It says that the ledger is complete, which
        the caller must ensure.
        """
        self._writes.put(None)
        before = -1
        while self._thread.is_alive() and before != self._done:
            before = self._done
            self._thread.join(timeout)
        problems = list(dict.fromkeys(self._errors))
        if self._thread.is_alive():
            problems.append(f"MLflow at {shown_uri(self._uri)} has not responded for {timeout:g} seconds")
        if not problems:
            return []
        return [f"{_first(problems)}; the ledger is complete, MLflow is not; {self._repair()}"]

    def close_by(self, deadline: float) -> list[str]:  # of time.monotonic
        """Wait until everything is written or the time is up; then write nothing more.

        The write in progress at that moment is not awaited. If the process then ends, a trial is left half written, and
        ``initbench sync`` and the next run write it again. Return one line about missing trials, or nothing.
        """
        self._deadline = deadline
        self._writes.put(None)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        missing = sum(self._written.get(trial) != number for trial, number in self._put.items())
        problems = list(dict.fromkeys(self._errors))
        if not (missing or problems or self._thread.is_alive()):
            return []
        reason = _first(problems) if problems else "there was no time left"
        return [f"{reason}; MLflow may lack {counted(missing, 'trial') if missing else 'the report'}; {self._repair()}"]

    @property
    def waiting(self) -> int:
        return self._writes.qsize()

    def abandon(self) -> None:
        """Finish only the write in progress, without waiting for it."""
        with suppress(queue.Empty):
            while True:
                self._writes.get_nowait()
        self._writes.put(None)

    def _repair(self) -> str:
        return f"to repair it: initbench sync {self._folder}"

    def _is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def _work(self) -> None:
        tracker: mlflow.MlflowTracker | None = None
        in_a_row, asked_again_at = 0, 0.0
        while (write := self._writes.get()) is not None and not self._is_late():
            if time.monotonic() >= asked_again_at:
                try:
                    tracker = tracker or mlflow.MlflowTracker(self._folder, self._uri, self._suite_name)
                    if self._is_late():  # the store was being created
                        return
                    write.call(tracker)
                    in_a_row = 0
                    if write.trial is not None:
                        self._written[write.trial] = write.number
                except Exception as error:  # noqa: BLE001  # whatever it is, the suite goes on and `close` tells
                    self._errors.append(without_secrets(first_line(error), self._uri))
                    in_a_row += 1
                    if tracker is None or in_a_row == mlflow.MOST_REFUSED:
                        in_a_row, asked_again_at = 0, time.monotonic() + _SECONDS_UNTIL_ASKED_AGAIN
            self._done += 1


def _first(problems: list[str]) -> str:
    return f"{problems[0]} (and {len(problems) - 1} more)" if len(problems) > 1 else problems[0]
