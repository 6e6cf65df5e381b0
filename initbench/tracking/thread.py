"""Writing to MLflow off the driver's loop."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from initbench.plugins import first_line
from initbench.tracking.uri import shown_uri, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from initbench.ledger import TrialRecord
    from initbench.tracking.mlflow import MlflowTracker

    Write = Callable[[MlflowTracker], object]

_SECONDS_UNTIL_ASKED_AGAIN = 30.0


class TrackingThread:
    """A thread that owns a `MlflowTracker` and does what it is given, in order.

    Importing MLflow and creating the store, some seconds, happen in the thread. Nothing that fails here stops a suite:
    the ledger is the truth, errors are kept for `close`, and ``initbench sync`` repairs. A store that does not answer
    is asked again only after a while; what was to be written meanwhile is left to ``initbench sync``.

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
            One line that says what went wrong and how to repair it; none where everything is written.
        """
        self._writes.put(None)
        before = -1
        while self._thread.is_alive() and before != self._done:
            before = self._done
            self._thread.join(timeout)
        problems = list(dict.fromkeys(self._errors))
        if self._thread.is_alive():
            problems.append(f"MLflow at {shown_uri(self._uri)} has answered nothing for {timeout:g} seconds")
        if not problems:
            return []
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        repair = f"the ledger is complete, MLflow is not; to repair it: initbench sync {self._folder}"
        return [f"{problems[0]}{more}; {repair}"]

    def abandon(self) -> None:
        """Write nothing more than what is being written, and do not wait for it."""
        with suppress(queue.Empty):
            while True:
                self._writes.get_nowait()
        self._writes.put(None)

    def _work(self) -> None:
        from initbench.tracking.mlflow import MOST_REFUSED, MlflowTracker

        tracker: MlflowTracker | None = None
        in_a_row, asked_again_at = 0, 0.0
        while (write := self._writes.get()) is not None:
            if time.monotonic() >= asked_again_at:
                try:
                    tracker = tracker or MlflowTracker(self._folder, self._uri, self._suite_name)
                    write(tracker)
                    in_a_row = 0
                except Exception as error:  # noqa: BLE001  # whatever it is, the suite goes on and `close` tells
                    self._errors.append(without_secrets(first_line(error), self._uri))
                    in_a_row += 1
                    if tracker is None or in_a_row == MOST_REFUSED:
                        in_a_row, asked_again_at = 0, time.monotonic() + _SECONDS_UNTIL_ASKED_AGAIN
            self._done += 1
