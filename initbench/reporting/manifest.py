"""The list of a report's files, beside them: the next report replaces and removes these files and no others."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from initbench.errors import InitbenchError
from initbench.files import MOST_BYTES, check_readable, check_within, read_text, remove, write_text

MANIFEST = ".initbench-report.json"
PAGE = "index.html"
FIGURES = "figures"
MARKER = 'data-made-by="initbench report"'
"""In the first tag of every figure's file."""
_MADE_BY = "initbench report"
_MARK_OF_PAGE = '<p class="eyebrow">initbench report</p>'
"""In the page of every version, including those that wrote no manifest."""
_HEAD_BYTES = 2**18  # contain the mark
# A manifest may come from anywhere, so only names that a report writes are accepted, within its folder.
_NAME = re.compile(r"index\.html|[ -.0-\[\]-~]+\.csv|figures/[ -.0-\[\]-~]+\.svg")


def written_files(folder: Path) -> list[Path]:
    """Return the existing files of a report of at most `MOST_BYTES`, by its manifest.

    If an early version wrote the report without a manifest, these are the files with names of a report's files. There
    are none if the folder is a link, or if no report wrote its page.
    """
    if folder.is_symlink():
        return []
    names = _read(folder)
    if names is None and not os.path.lexists(folder / MANIFEST):
        names = _names_without_manifest(folder)
    files = [folder / name for name in sorted(names or ()) if _is_file(folder / name, folder)]
    return [file for file in files if file.stat().st_size <= MOST_BYTES]


@contextmanager
def recorded(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Create a folder for the report that the block writes; afterwards remove files that only the earlier report had.

    The manifest lists all files before the first is written, so that the next report knows them even if this one is
    interrupted.

    Names are ``index.html``, ``<name>.csv`` and ``figures/<name>.svg``.

    Raises:
        InitbenchError: a file that no report wrote has one of the names; nothing is written.
        OSError: a link leads out of the folder, or a file cannot be written or removed.
    """
    before = _read(folder)
    _check(folder, names, before)
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    left = set(before or ()).difference(names)
    _write(folder, {*names, *left})
    yield
    for name in left:
        if _is_file(folder / name, folder):
            remove(folder / name, folder)
    _write(folder, names)


def check_not_foreign(path: Path, *, is_known: bool = False) -> None:
    """Refuse to replace a folder (OSError), or a file that is neither known nor a report's figure (InitbenchError)."""
    if path.is_dir() and not path.is_symlink():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if os.path.lexists(path) and not is_known and not is_drawing(path):
        raise InitbenchError(f"{path}: was not made by initbench report; give another folder")


def is_drawing(path: Path) -> bool:
    """Return whether a file is a figure that a report wrote."""
    return path.suffix == ".svg" and not path.is_symlink() and MARKER in _head(path)


def _names_without_manifest(folder: Path) -> set[str]:
    if _MARK_OF_PAGE not in _head(folder / PAGE):
        return set()
    names = {path.relative_to(folder).as_posix() for pattern in ("*", f"{FIGURES}/*") for path in folder.glob(pattern)}
    return set(filter(_NAME.fullmatch, names))


def _check(folder: Path, names: Collection[str], before: Collection[str] | None) -> None:
    is_of_suite = _is_of_suite(folder)
    if is_of_suite:
        check_within(folder / PAGE, folder.parent)
    check_within(folder / FIGURES / PAGE, folder)
    are_known = is_of_suite or (before is None and _MARK_OF_PAGE in _head(folder / PAGE))
    for name in names:
        check_not_foreign(folder / name, is_known=are_known or name in (before or ()))
    check_not_foreign(folder / MANIFEST, is_known=is_of_suite or before is not None)


def _is_of_suite(folder: Path) -> bool:
    """Return whether a folder is the ``report`` of a suite's folder, which only reports write to."""
    folder = folder.absolute()
    return folder.name == "report" and any((folder.parent / "trials").glob("*.json"))


def _head(path: Path) -> str:
    """Return the beginning of a file; empty if it cannot be read."""
    try:
        check_readable(path)
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _is_file(path: Path, folder: Path) -> bool:
    try:
        check_within(path, folder)
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read(folder: Path) -> set[str] | None:
    """Return the names in a folder's manifest; None if it has no valid one."""
    try:
        data = json.loads(read_text(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("made_by") != _MADE_BY or not isinstance(data.get("files"), list):
        return None
    return {name for name in data["files"] if isinstance(name, str) and _NAME.fullmatch(name)}


def _write(folder: Path, names: Collection[str]) -> None:
    text = json.dumps({"made_by": _MADE_BY, "files": sorted(names)}, indent=0)
    write_text(folder / MANIFEST, text + "\n", folder)
