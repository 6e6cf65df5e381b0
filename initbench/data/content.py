"""The identity of a dataset that lies in files: a hash over their names and bytes, wherever they lie.

Nothing that is decoded or computed goes into it, as that differs between processors and versions of libraries.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from initbench.data import cache
from initbench.errors import DataError

# What is kept is known again by sizes and times. Times are coarse (4 ms on Linux, 2 s on FAT), and a file may change
# twice within one: what was changed so shortly before it was read is not kept. Nanoseconds.
SETTLED = 2_000_000_000

_KIND = "content"
# Raise it when the hash of the same files changes.
_FORMAT = 1
# How many of a long list are named.
_NAMED = 10
# Of a file that may not be looked at. It is opened all the same, which says why.
_UNKNOWN = (0, 0, 0)


class Content(NamedTuple):
    """What is known of files.

    Attributes:
        hash: of those that can be read.
        unreadable: name of each other → why, in few words.
    """

    hash: str
    unreadable: dict[str, str]


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
        DataError: files are missing or cannot be read, which are named; one changes while it is read; or there is none.
    """
    paths = _named(Path(root).absolute(), files)
    content = _content(root, paths, instructions)
    if content.unreadable:
        raise _unreadable({str(paths[name]): reason for name, reason in content.unreadable.items()})
    return content.hash


def readable_content(root: str | Path, files: Iterable[str | Path], instructions: str) -> Content:
    """Return the hash of those files that can be read, as `content_hash` of them alone, and which cannot."""
    return _content(root, _named(Path(root).absolute(), files), instructions)


def listed(names: list[str]) -> str:
    """Return the first ten of a list in words, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _content(root: str | Path, paths: Mapping[str, Path], instructions: str) -> Content:
    if not paths:
        raise DataError(f"{root}: no files: {instructions}")
    states = _states(paths, instructions)
    key = _key(paths, states)
    if (known := _known(key, paths)) is not None:
        return known
    with cache.alone(_KIND, key):
        if (known := _known(key, paths)) is not None:
            return known
        start = time.time_ns()
        digests, unreadable = {}, {}
        for name, path in paths.items():
            try:
                digests[name] = _sha256(path)
            except OSError as error:
                unreadable[name] = error.strerror or str(error)
        content = Content(combined(digests), unreadable)
        if _states(paths, instructions) != states:
            raise DataError(f"{root}: files changed while they were read: try again when they are complete")
        if all(start - max(modified, changed) > SETTLED for _, modified, changed in states.values()):
            cache.write(_KIND, key, "\n".join([content.hash, *([json.dumps(unreadable)] if unreadable else [])]))
    return content


def _known(key: str, paths: Mapping[str, Path]) -> Content | None:
    """Return what is kept; nothing where a file that could not be read then can be now, whatever made it so."""
    if (text := cache.read(_KIND, key)) is None:
        return None
    digest, _, rest = text.partition("\n")
    unreadable: dict[str, str] = json.loads(rest) if rest else {}
    return None if any(_opens(paths[name]) for name in unreadable) else Content(digest, unreadable)


def _opens(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def combined(digests: Mapping[str, str]) -> str:
    """Return ``sha256:`` and the hash of files whose own SHA-256 are known, by name, with ``/`` between its parts."""
    # As `sha256sum` does, so that no name can be taken for the end of a line and the beginning of another.
    lines = []
    for name in digests:
        escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        mark = "\\" if escaped != name else ""
        lines.append((name.encode(errors="surrogateescape"), f"{mark}{digests[name]}  {escaped}\n"))
    text = "".join(line for _, line in sorted(lines))
    return f"sha256:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()}"


def _named(root: Path, files: Iterable[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    if isinstance(files, Mapping):
        return {name: root / path for name, path in files.items()}
    paths = [root / file for file in files]
    return {path.relative_to(root).as_posix(): path for path in paths}


def _states(paths: Mapping[str, Path], instructions: str) -> dict[str, tuple[int, int, int]]:
    """Return each file's size in bytes, and when its content and it itself last changed, in ns."""
    states, missing = {}, []
    for name, path in paths.items():
        try:
            state = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
            continue
        except PermissionError:
            states[name] = _UNKNOWN
            continue
        except (OSError, ValueError) as error:  # a path with a null character is a ValueError
            raise _unreadable({str(path): getattr(error, "strerror", None) or str(error)}) from error
        if not stat.S_ISREG(state.st_mode):
            raise DataError(f"{path} is not a file: {instructions}")
        states[name] = _state(state)
    if missing:
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(f"{missing[0]}{more} missing: {instructions}")
    return states


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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unreadable(reasons: Mapping[str, str]) -> DataError:
    """Return the error of files: path → why it cannot be read."""
    if len(reasons) == 1:
        [(path, reason)] = reasons.items()
        return DataError(f"{path} cannot be read: {reason}")
    named = listed([f"{path} ({reason})" for path, reason in reasons.items()])
    return DataError(f"{len(reasons)} files cannot be read: {named}")
