"""Writing to MLflow off the driver's loop."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from initbench.plugins import first_line
from initbench.tracking.uri import shown_uri

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from initbench.ledger import TrialRecord
    from initbench.tracking.mlflow import MlflowTracker

    Write = Callable[[MlflowTracker], object]


class TrackingThread:
    """A thread that owns a `MlflowTracker` and does what it is given, in order.

    Importing MLflow and creating the store, some seconds, happen in the thread. Nothing that fails here stops a suite:
    the ledger is the truth, errors are kept for `close`, and ``initbench sync`` repairs.

    Args:
        folder, uri, suite_name: as for `MlflowTracker`.
    """

    def __init__(self, folder: str | Path, uri: str, suite_name: str) -> None:
        self._folder = folder
        self._uri = uri
        self._suite_name = suite_name
        self._writes: queue.Queue[Write | None] = queue.Queue()
        self._errors: list[str] = []
        self._done = 0
        # A daemon: a store that hangs must not keep the process alive after `close` has given up. Python waits at its
        # end for the threads of a ThreadPoolExecutor, which would otherwise do.
        self._thread = threading.Thread(target=self._work, name="initbench-tracking", daemon=True)
        self._thread.start()

    def put(self, record: TrialRecord, labels: Mapping[str, str]) -> None:
        """Have a trial written: `MlflowTracker.log`, as the ledger then has it.

        Where MLflow falls behind by thousands of trials, what waits is their ids.
        """
        from initbench.ledger import Ledger

        ledger, trial_id = Ledger(self._folder), record.id
        if ledger.path(trial_id).exists():
            self._writes.put(lambda tracker: tracker.log(ledger.read(trial_id), labels))
        else:
            self._writes.put(lambda tracker: tracker.log(record, labels))

    def put_suite(self) -> None:
        """Have the suite file and the report written: `MlflowTracker.log_suite`."""
        self._writes.put(lambda tracker: tracker.log_suite())

    def close(self, timeout: float = 60.0) -> list[str]:
        """Wait until everything is written.

        Args:
            timeout: give up once nothing was written for so many seconds.

        Returns:
            What went wrong, one line each, and last how to repair it; empty where everything is written.
        """
        self._writes.put(None)
        before = -1
        while self._thread.is_alive() and before != self._done:
            before = self._done
            self._thread.join(timeout)
        problems = list(dict.fromkeys(self._errors))
        if self._thread.is_alive():
            problems.append(f"MLflow at {shown_uri(self._uri)} has answered nothing for {timeout:g} seconds")
        if problems:
            problems.append(f"the ledger is complete, MLflow is not; to repair it: initbench sync {self._folder}")
        return problems

    def abandon(self) -> None:
        """Write nothing more than what is being written, and do not wait for it."""
        with suppress(queue.Empty):
            while True:
                self._writes.get_nowait()
        self._writes.put(None)

    def _work(self) -> None:
        try:
            from initbench.tracking.mlflow import MlflowTracker

            tracker = MlflowTracker(self._folder, self._uri, self._suite_name)
        except Exception as error:  # noqa: BLE001  # whatever it is, the suite goes on and `close` tells
            self._errors.append(first_line(error))
            return
        while (write := self._writes.get()) is not None:
            try:
                write(tracker)
            except Exception as error:  # noqa: BLE001  # as above; the next trial may fare better
                self._errors.append(first_line(error))
            self._done += 1
