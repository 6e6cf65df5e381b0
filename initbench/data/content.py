"""The identity of a dataset in files: a hash of their names and bytes, wherever the files are.

Nothing that is decoded or computed enters the hash, because it may differ between processors and library versions.
"""

from __future__ import annotations

import hashlib
import json
import platform
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from initbench.data import cache
from initbench.errors import DataError

# Cached hashes are found by sizes and times. Times are coarse (4 ms on Linux, 2 s on FAT), and a file may change twice
# within one tick, so the hash of a file that changed just before it was read is not cached. Nanoseconds.
SETTLED = 2_000_000_000

_KIND = "content"
# Raise it when the hash of the same files changes.
_FORMAT = 1
# Number of names shown from a long list.
_NAMED = 10
# State of a file whose metadata cannot be read. It is opened nevertheless, which gives the reason.
_UNKNOWN = (0, 0, 0)


class Content(NamedTuple):
    """The hash of the readable files, and the names of the others, each with the reason in a few words."""

    hash: str
    unreadable: dict[str, str]


def content_hash(root: str | Path, files: Iterable[str | Path] | Mapping[str, str | Path], instructions: str) -> str:
    """Return the hash of files: of their names relative to a folder and their bytes, in any order.

    It is the SHA-256 of what ``sha256sum`` prints for the files, sorted by name: ``cd ROOT; LC_ALL=C sha256sum *``. It
    is cached in the user's cache folder by the files' paths, sizes and times until one of them changes; each machine
    has its own cache, even if the folder is shared.

    Args:
        root: the folder of the dataset; its location does not affect the hash.
        files: paths below the root, relative or absolute; or a mapping name → path (``{"train/a.txt": path}``) if file
            names do not show what a file is for; these paths may be anywhere.
        instructions: which files to put where, for the error message.

    Returns:
        ``sha256:`` and 64 hexadecimal digits.

    Raises:
        DataError: files are missing or unreadable (the message names them), a file changes while it is read, or there
            are no files.
    """
    paths = _named(Path(root).absolute(), files)
    content = _content(root, paths, instructions)
    if content.unreadable:
        raise _unreadable({str(paths[name]): reason for name, reason in content.unreadable.items()})
    return content.hash


def readable_content(root: str | Path, files: Iterable[str | Path], instructions: str) -> Content:
    """Return the hash of the readable files, equal to their `content_hash`, and the files that cannot be read."""
    return _content(root, _named(Path(root).absolute(), files), instructions)


def listed(names: list[str]) -> str:
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
    """Return the cached content; None if a file that was unreadable can now be read, for whatever reason."""
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
    """Return ``sha256:`` and the hash of files with known SHA-256, by name, with ``/`` between its parts."""
    # Escaped as by `sha256sum`, so that no name can contain a line break.
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
    """Return each file's size in bytes and the times of the last change of its content and of its metadata, in ns."""
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
        # A copy that keeps the modification time still has a later change time.
        states[name] = state.st_size, state.st_mtime_ns, state.st_ctime_ns
    if missing:
        more = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise DataError(f"{missing[0]}{more} missing: {instructions}")
    return states


def _key(paths: Mapping[str, Path], states: Mapping[str, tuple[int, int, int]]) -> str:
    """Return the cache key: this machine, and all files' names, paths, sizes and times."""
    digest = hashlib.sha256(json.dumps([_FORMAT, platform.node()]).encode())
    for name in sorted(paths):
        digest.update(json.dumps([name, str(paths[name]), *states[name]]).encode())
    return digest.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unreadable(reasons: Mapping[str, str]) -> DataError:
    """Return the error for unreadable files: path → reason."""
    if len(reasons) == 1:
        [(path, reason)] = reasons.items()
        return DataError(f"{path} cannot be read: {reason}")
    named = listed([f"{path} ({reason})" for path, reason in reasons.items()])
    return DataError(f"{len(reasons)} files cannot be read: {named}")
