"""The ledger: a folder of trial records, the source of truth.

Each trial has one JSON file, ``<suite folder>/trials/<id>.json``. It is put in place by an atomic rename, so it is
complete or absent, even if the driver is killed. To resume is to run the trials without a finished record. A damaged
file is reported and does not affect the others; the run that tries its trial again keeps it under another name. A run
stops if its folder is moved, emptied or removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from initbench.errors import InitbenchError, LedgerError
from initbench.files import check_within, read_text, write_text
from initbench.ledger.lock import HeldLock, is_locked, lock
from initbench.ledger.record import Status, TrialRecord, record_of
from initbench.visible_text import visible

SUITE_FILE = "suite.yaml"
RESOLVED_FILE = "resolved.json"
DAMAGED = ".damaged"
"""Suffix of a file that was not a record, once its trial runs again."""


class Ledger:
    """The records of one suite, in its folder ``runs/<suite name>``, which is made when the first one is written."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.trials = self.folder / "trials"
        self._lock: HeldLock | None = None
        self._last: Path | None = None  # the last written record

    def path(self, trial_id: str) -> Path:
        return self.trials / f"{trial_id}.json"

    def read(self, trial_id: str) -> TrialRecord:
        try:
            return _read(self.path(trial_id))
        except _NotARecordError as error:
            raise InitbenchError(f"{self.path(trial_id)}: {error}") from error

    def write(self, record: TrialRecord) -> None:
        """Write a record by atomic rename; it replaces the record of a failed attempt."""
        if self._lock is not None and self._last is not None and not self._last.exists():
            raise InitbenchError(
                f"{self.trials}: was emptied or removed while this run was writing to it, so the run stops; the same "
                "command runs again what is missing"
            )
        self.write_file(self.path(record.id), json.dumps(record.to_json(), allow_nan=False))
        self._last = self.path(record.id)

    def write_suite(self, text: str, resolved: Mapping[str, Any]) -> None:
        self.write_file(self.folder / SUITE_FILE, text)
        self.write_file(self.folder / RESOLVED_FILE, json.dumps(resolved, indent=1, allow_nan=False) + "\n")

    def write_file(self, path: Path, text: str) -> None:
        """Write a file of the suite's folder by atomic rename, so that it is complete or unchanged.

        Raises:
            InitbenchError: the disk is full, the folder cannot be written, a link leads out of it, or it is no longer
                the locked one; one line says which.
        """
        if self._lock is not None:
            self._lock.check()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text, self.folder, durable=True)
        except OSError as error:
            raise InitbenchError(f"{path}: cannot be written: {error.strerror or error}") from error

    def check_complete(self, trials: Collection[str]) -> None:
        """Check that the records that were read or written still exist, in the locked folder."""
        if self._lock is not None:
            self._lock.check()
        gone = len(set(trials) - {path.stem for path in self.files()})
        if gone:
            raise InitbenchError(
                f"{self.trials}: {gone} of {len(trials)} records were removed during this run; the same command "
                "runs these trials again"
            )

    def set_aside(self, trial_id: str) -> Path | None:
        """Rename the file of a trial if it is not a record, so that nobody reads it; return the new name."""
        path = self.path(trial_id)
        if not path.exists():
            return None
        names = (path.with_name(f"{path.name}{DAMAGED}{number or ''}") for number in count())
        aside = next(name for name in names if not name.exists())
        try:
            check_within(path, self.folder)
            return path.rename(aside)
        except OSError as error:
            raise InitbenchError(f"{path}: cannot be renamed: {error.strerror}") from error

    def records(self, skipped: list[str] | None = None) -> Iterator[TrialRecord]:
        """Yield every record, in the order of the ids.

        Args:
            skipped: receives a line for each file that is not a record of this version; with None such a file is an
                error.

        Raises:
            LedgerError: all records were written in another format.
            InitbenchError: a file is not a record, and `skipped` is not given.
        """
        read, other_formats = 0, None
        for path in self.files():
            try:
                record = _read(path)
            except (LedgerError, _NotARecordError) as error:
                if isinstance(error, LedgerError):
                    other_formats = other_formats or error
                if skipped is not None:
                    skipped.append(self._skipped(path, error))
                elif not isinstance(error, LedgerError):
                    raise InitbenchError(f"{path}: {error}; delete it and run the suite again") from error
            else:
                read += 1
                yield record
        if other_formats is not None and (skipped is None or not read):
            raise LedgerError(f"{self.folder}: {other_formats}; move it away, or give another folder") from None

    def files(self) -> list[Path]:
        """Return every file that is, or should be, a record, in the order of the ids."""
        return sorted(self.trials.glob("*.json"))

    def read_file(self, path: Path, skipped: list[str]) -> TrialRecord | None:
        """Return the record in one of `files`; if it is not a record, add a line about it to `skipped`."""
        try:
            return _read(path)
        except (LedgerError, _NotARecordError) as error:
            skipped.append(self._skipped(path, error))
            return None

    def _skipped(self, path: Path, error: Exception) -> str:
        # Only the folder's name, so that a report does not depend on the location of the ledger.
        problem = str(error).removeprefix("a record ")
        return visible(f"{self.folder.resolve().name}/{self.trials.name}/{path.name}: {problem}")

    def statuses(self, skipped: list[str] | None = None) -> dict[str, Status]:
        """Return the status of every trial that has a record; `skipped` as for `records`."""
        return {record.id: record.status for record in self.records(skipped)}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that admits one driver per ledger, and write to no other folder meanwhile."""
        with lock(self.folder) as held:
            self._lock = held
            try:
                yield
            finally:
                self._lock = None

    def is_locked(self) -> bool | None:
        """Return whether a driver is at work here; None if this system cannot tell."""
        return is_locked(self.folder)


class _NotARecordError(Exception):
    pass


def _read(path: Path) -> TrialRecord:
    try:
        record = record_of(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _NotARecordError(f"not a trial record ({' '.join(reason.split())})") from error
    if record.id != path.stem:
        raise _NotARecordError("not a trial record (its id is not the file's name)")
    return record
