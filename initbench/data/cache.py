"""Cached results about files that are slow to compute: short texts in the user's cache folder or another folder.

`kind` is the folder of an entry and `key` its file name, a hash of everything that the text depends on; `root` replaces
the user's cache folder. An entry that is lost, damaged or cannot be written is simply made again. Several processes may
read and write the same entry.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

# Entries made by this process, in case the folder cannot be written.
_made: dict[tuple[str, str], str] = {}


def cache_root() -> Path:
    """Return the user's cache folder: ``$XDG_CACHE_HOME/initbench``, or ``~/.cache/initbench``."""
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers; nothing can be written below the null device
        home = os.devnull
    return Path(home, "initbench").absolute()


def read(kind: str, key: str, root: Path | None = None) -> str | None:
    """Return the text under a key, or None if it is missing or damaged."""
    if (kind, key) in _made:
        return _made[kind, key]
    with suppress(OSError, ValueError):
        check, _, text = _path(kind, key, root).read_text(encoding="utf-8").partition("\n")
        if check == _check(key, text):
            return text
    return None


def write(kind: str, key: str, text: str, root: Path | None = None) -> None:
    """Store a text under a key; other processes see all of it or nothing."""
    _made[kind, key] = text
    path = _path(kind, key, root)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(f"{_check(key, text)}\n{text}")
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)


@contextmanager
def alone(kind: str, key: str, root: Path | None = None) -> Iterator[None]:
    """Wait while another process makes the same entry; if the folder cannot be locked, do not wait."""
    lock = FileLock(_path(kind, f"{key}.lock", root))
    with suppress(OSError, NotImplementedError):
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        if lock.is_locked:
            lock.release()
            # Processes that waited for the lock read the entry again anyway.
            with suppress(OSError):
                Path(lock.lock_file).unlink(missing_ok=True)


def _path(kind: str, key: str, root: Path | None) -> Path:
    return (cache_root() if root is None else root) / kind / key


def _check(key: str, text: str) -> str:
    """Return a checksum that detects a damaged entry, or one of another key."""
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()
