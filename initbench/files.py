"""Files in folders that anybody may have filled.

A file is checked before it is read: it must be regular and of bounded size. A write replaces the whole file or nothing.
Nothing is written or removed outside the folder that a path belongs to, whatever links the folder contains.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MOST_BYTES = 2**28
"""Size limit of a file that is read whole; a record of 10,000 steps takes a hundredth of it."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_readable(path: str | Path, most_bytes: int = MOST_BYTES) -> None:
    """Check a file before it is opened: opening a pipe may block forever, and reading a device may never end.

    A file that does not exist, is not regular or is too large raises an OSError whose `strerror` says which; a path
    with a null character raises a ValueError.
    """
    status = os.stat(path)  # noqa: PTH116  # also accepts a text
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"is {kind}, not a file", str(path))
    if status.st_size > most_bytes:
        raise OSError(errno.EFBIG, f"has {status.st_size:,} bytes, more than the limit of {most_bytes:,}", str(path))


def read_text(path: str | Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a file, UTF-8; raises the errors of `check_readable`, and a ValueError if it is not UTF-8."""
    check_readable(path, most_bytes)
    return Path(path).read_text(encoding="utf-8")


def is_within(path: Path, folder: Path) -> bool:
    # `Path.resolve` fails on circular links.
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def check_within(path: Path, folder: Path) -> None:
    """Raise an OSError if links lead a path out of a folder.

    The last part may be a link, which is replaced or removed, and the folder itself may be one.
    """
    if not is_within(path.parent, folder):
        raise OSError(errno.EXDEV, f"lies behind a link that leads out of {folder}", str(path))


@contextmanager
def written_whole(path: Path, folder: Path, *, durable: bool = False) -> Iterator[TextIO]:
    """Open a file for writing, and put it in place by an atomic rename when it is complete.

    It must be in `folder`, see `check_within`. `durable` writes it to the disk before the rename. An OSError names the
    file, not the temporary one.
    """
    check_within(path, folder)
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except BaseException as error:
        Path(part).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_text(path: Path, text: str, folder: Path, *, durable: bool = False) -> None:
    with written_whole(path, folder, durable=durable) as file:
        file.write(text)


def remove(path: Path, folder: Path) -> None:
    """Remove a file that is known to be the library's, or a link in its place; a missing file is not an error."""
    check_within(path, folder)
    path.unlink(missing_ok=True)
