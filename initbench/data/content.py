"""The identity of a dataset that lies in files: a hash over their names and bytes, wherever they lie.

Nothing that is decoded or computed goes into it, as that differs between processors and versions of libraries.
"""

from __future__ import annotations

import hashlib
import json
import platform
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from initbench.data import cache
from initbench.errors import DataError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

# What is kept is known again by sizes and times. Times are coarse (4 ms on Linux, 2 s on FAT), and a file may change
# twice within one: what was changed so shortly before it was read is not kept. Nanoseconds.
SETTLED = 2_000_000_000

_KIND = "content"
# Raise it when the hash of the same files changes.
_FORMAT = 1


def content_hash(root: str | Path, files: Iterable[str | Path] | Mapping[str, str | Path], instructions: str) -> str:
    """Return the hash of files: over their names below a folder and their bytes, in any order.

    It is the SHA-256 of what ``sha256sum`` prints for the files, sorted by name: ``cd ROOT; LC_ALL=C sha256sum *``.
    It is kept in the user's cache folder by the files' paths, sizes and times, so that it is read from there until
    one of them changes; a machine has a cache of its own, also where the folder is shared.

    Args:
        root: the folder of the dataset; what is above it makes no difference.
        files: paths below the root, or absolute ones that lie there; or, where names in a folder do not say what a
            file is for, name → path (``{"train/a.txt": path}``), and then paths may lie anywhere.
        instructions: what to put where, for the error.

    Returns:
        ``sha256:`` and 64 hexadecimal digits.

    Raises:
        DataError: a file is missing, cannot be read or changes while it is read, or there is none.
    """
    paths = _named(Path(root).absolute(), files)
    if not paths:
        raise DataError(f"{root}: no files: {instructions}")
    states = _states(paths, instructions)
    key = _key(paths, states)
    if (known := cache.read(_KIND, key)) is not None:
        return known
    with cache.alone(_KIND, key):
        if (known := cache.read(_KIND, key)) is not None:
            return known
        start = time.time_ns()
        found = combined({name: _sha256(path) for name, path in paths.items()})
        if _states(paths, instructions) != states:
            raise DataError(f"{root}: files changed while they were read: try again when they are complete")
        if all(start - max(modified, changed) > SETTLED for _, modified, changed in states.values()):
            cache.write(_KIND, key, found)
    return found


def combined(digests: Mapping[str, str]) -> str:
    """Return the hash of files whose own SHA-256 are known.

    Args:
        digests: name, with ``/`` between its parts → SHA-256 in hexadecimal.

    Returns:
        ``sha256:`` and 64 hexadecimal digits.
    """
    # As `sha256sum` does, so that no name can be taken for the end of a line and the beginning of another.
    lines = []
    for name in digests:
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if escaped != name else ""
        lines.append((name.encode(errors="surrogateescape"), f"{mark}{digests[name]}  {escaped}\n"))
    text = "".join(line for _, line in sorted(lines))
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def _named(root: Path, files: Iterable[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    """Return name → absolute path."""
    if isinstance(files, Mapping):
        return {name: root / path for name, path in files.items()}
    paths = [root / file for file in files]
    return {path.relative_to(root).as_posix(): path for path in paths}


def _states(paths: Mapping[str, Path], instructions: str) -> dict[str, tuple[int, int, int]]:
    """Return each file's size in bytes, and when its content and it itself last changed, in ns."""
    found, missing = {}, []
    for name, path in paths.items():
        try:
            state = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
            continue
        except (OSError, ValueError) as error:  # a path with a null character is a ValueError
            raise _unreadable(path, error) from error
        if not stat.S_ISREG(state.st_mode):
            raise DataError(f"{path} is not a file: {instructions}")
        found[name] = _state(state)
    if missing:
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(f"{missing[0]}{more} missing: {instructions}")
    return found


def _state(state: os.stat_result) -> tuple[int, int, int]:
    # A copy that keeps the time of modification still has a later time of change.
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _key(paths: Mapping[str, Path], states: Mapping[str, tuple[int, int, int]]) -> str:
    """Return what the hash is kept by: this machine, and all files' names, paths, sizes and times."""
    digest = hashlib.sha256(json.dumps([_FORMAT, platform.node()]).encode())
    for name in sorted(paths):
        digest.update(json.dumps([name, str(paths[name]), *states[name]]).encode())
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError | ValueError) -> DataError:
    return DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
