"""Downloads into the data root: one process at a time, never without end, with one clear error."""

from __future__ import annotations

import io
import socket
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from initbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds without a byte before a connection is given up.
TIMEOUT = 15.0


def download(name: str, root: Path, present: Callable[[], bool], fetch: Callable[[], None], instructions: str) -> None:
    """Fetch a dataset's files unless they are there.

    Args:
        name: the dataset's registered name.
        root: the data root; made where it does not exist.
        present: says whether the files are there; asked again under the lock, as another process may have fetched them.
        fetch: downloads them into the root.
        instructions: what to put where by hand, for the error.

    Raises:
        DataError: the root cannot be written, or the download failed.
    """
    if present():
        return
    made = not root.exists()
    lock = FileLock(root / f".{name}.lock")
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise DataError(
            f"{name}: the data root {root} cannot be written ({_reason(error)}): "
            f"set INITBENCH_DATA to a folder that can be, or {instructions}"
        ) from error
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        # torchvision prints each attempt and draws a progress bar, which would run through our own display.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            if not present():
                fetch()
    except (OSError, RuntimeError, EOFError) as error:
        raise DataError(f"{name} is missing and cannot be downloaded ({_reason(error)}): {instructions}") from error
    finally:
        socket.setdefaulttimeout(before)
        lock.release()
        # A request that failed leaves nothing behind. Who waited for the lock asks `present` again all the same.
        Path(lock.lock_file).unlink(missing_ok=True)
        if made:
            with suppress(OSError):  # it holds the data
                root.rmdir()


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(":. ") or type(error).__name__
