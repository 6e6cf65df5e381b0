"""The ledger: a folder of trial records, the source of truth.

Each trial has one JSON file, ``<suite folder>/trials/<id>.json``. It is put in place by an atomic rename, so it is
complete or absent, even if the driver is killed. To resume is to run the trials without a finished record. A damaged
file is reported and does not affect the others; the run that tries its trial again keeps it under another name.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from initbench.errors import InitbenchError, LedgerError
from initbench.files import check_within, read_text, write_text
from initbench.ledger.record import Status, TrialRecord, record_of
from initbench.visible_text import visible

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUITE_FILE = "suite.yaml"
RESOLVED_FILE = "resolved.json"
DAMAGED = ".damaged"
"""Suffix of a file that was not a record, once its trial runs again."""

LOCK_FILE = ".lock"
_WAIT_SECONDS = 0.5
"""How long a driver waits for the lock: `Ledger.is_locked` holds it for a moment."""


class Ledger:
    """The records of one suite, in its folder ``runs/<suite name>``, which is made when the first one is written."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.trials = self.folder / "trials"
        self._has_lock = False
        self._locked_file: tuple[int, int] | None = None
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
        if self._has_lock and self._last is not None and not self._last.exists():
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

        An InitbenchError says in one line why it cannot be written, or that the folder is no longer the locked one.
        """
        self._check_lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text, self.folder, durable=True)
        except OSError as error:
            raise InitbenchError(f"{path}: cannot be written: {error.strerror or error}") from error

    def check_folder(self) -> None:
        """Raise an InitbenchError if the folder is a file, or would be within one."""
        above = next(path for path in (self.folder, *self.folder.absolute().parents) if path.exists())
        if not above.is_dir():
            raise InitbenchError(f"{self.folder}: cannot be a folder, because {above} is a file")

    def check_complete(self, trials: Collection[str]) -> None:
        """Check that the records that were read or written still exist, in the locked folder."""
        self._check_lock()
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

        `skipped` receives a line for each file that is not a record of this version; with None such a file is an
        InitbenchError. If all records were written in another format, that is a LedgerError.
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
        return {record.id: record.status for record in self.records(skipped)}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that admits one driver per ledger, and write to no other folder meanwhile.

        If nothing was written, the folder is removed. Records are put in place by atomic renames, so even two drivers
        that do not see each other's lock (some network file systems have no locks) leave complete and equal records.
        """
        made = [parent for parent in (self.folder, *self.folder.parents) if not parent.exists()]
        file = self.folder / LOCK_FILE
        held = FileLock(file, timeout=_WAIT_SECONDS)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            held.acquire()
        except Timeout:
            problem = "another initbench run is writing here; wait for it or stop it"
            raise InitbenchError(f"{self.folder}: {problem}") from None
        except (OSError, NotImplementedError) as error:
            why = getattr(error, "strerror", None) or "its file system has no locks; give a folder on another"
            raise InitbenchError(f"{self.folder}: cannot be written: {why}") from error
        self._has_lock, self._locked_file = True, self._lock_file()
        try:
            yield
        finally:
            self._has_lock = False
            # Meanwhile another suite may have been put into the folder, or the folder may be gone.
            with suppress(OSError):
                if made and set(self.folder.iterdir()) <= {file}:
                    file.unlink(missing_ok=True)
                    for parent in made:
                        parent.rmdir()
            held.release()

    def _check_lock(self) -> None:
        """If this process has the lock, check that no other can get it: the folder is still the locked one."""
        if self._has_lock and (self._locked_file is None or self._lock_file() != self._locked_file):
            raise InitbenchError(
                f"{self.folder}: was moved, emptied or removed while this run was writing to it, so the run stops; the "
                "same command continues from there"
            )

    def _lock_file(self) -> tuple[int, int] | None:
        try:
            stat = (self.folder / LOCK_FILE).stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def is_locked(self) -> bool | None:
        """Return whether a driver is at work here, without writing; None if this system cannot tell."""
        if fcntl is None:
            return None
        try:
            handle = os.open(self.folder / LOCK_FILE, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return None
        finally:
            os.close(handle)  # which releases the lock
        return False


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
