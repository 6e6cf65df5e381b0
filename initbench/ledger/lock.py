"""The lock that admits one driver per ledger."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from initbench.errors import InitbenchError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"
_WAIT_SECONDS = 0.5
"""How long a driver waits for the lock: `is_locked` holds it for a moment."""


class HeldLock:
    """The lock of a folder while this process holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = self._identity()

    def check(self) -> None:
        """Check that no other driver can get the lock: the folder is still the locked one."""
        if self._file is None or self._identity() != self._file:
            raise InitbenchError(
                f"{self.folder}: was moved, emptied or removed while this run was writing to it, so the run stops; the "
                "same command continues from there"
            )

    def _identity(self) -> tuple[int, int] | None:
        try:
            stat = (self.folder / LOCK_FILE).stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino


@contextmanager
def lock(folder: Path) -> Iterator[HeldLock]:
    """Hold the lock of a folder; if nothing was written meanwhile, remove the folder.

    Records are put in place by atomic renames, so even two drivers that do not see each other's lock (some network file
    systems have no locks) leave complete and equal records.
    """
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    file = folder / LOCK_FILE
    held = FileLock(file, timeout=_WAIT_SECONDS)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held.acquire()
    except Timeout:
        raise InitbenchError(f"{folder}: another initbench run is writing here; wait for it or stop it") from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or "its file system has no locks; give a folder on another"
        raise InitbenchError(f"{folder}: cannot be written: {why}") from error
    try:
        yield HeldLock(folder)
    finally:
        # Meanwhile another suite may have been put into the folder, or the folder may be gone.
        with suppress(OSError):
            if made and set(folder.iterdir()) <= {file}:
                file.unlink(missing_ok=True)
                for parent in made:
                    parent.rmdir()
        held.release()


def is_locked(folder: Path) -> bool | None:
    """Return whether a driver is at work in a folder, without writing; None if this system cannot tell."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY)
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
