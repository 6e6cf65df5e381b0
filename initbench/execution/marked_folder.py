"""Folders in which the library keeps files for a while. It marks those that it makes, and touches nothing in others."""

from __future__ import annotations

import errno
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from initbench.files import read_text, write_text

MARK_FILE = ".folder"
"""Says which folder it is, so that a worker elsewhere can tell whether the same path is the same folder."""
_MARK = re.compile(r"[0-9a-f]{32}")
_MOST_BYTES = 1_000


class MarkedFolder(NamedTuple):
    """A folder that the library made, or will make, and what its file `MARK_FILE` says.

    The path is absolute. A link in its place is not followed, though the path may lead through links to it.
    """

    path: Path
    mark: str

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the folder at a path, with the mark that it has or else a new one. Nothing is written."""
        known = read_mark(path)
        return cls(path, known if known is not None and _MARK.fullmatch(known) else secrets.token_hex(16))

    def make(self, *, parents: bool = False) -> None:
        """Make the folder and mark it, unless that was done before. An OSError's `strerror` says why it cannot be made.

        A folder that holds files and no mark is somebody else's. So is one with the networks of an interrupted run of
        version 0.2, which did not mark it: to leave them alone is simplest, as they only save time.
        """
        if self.path.is_symlink():
            raise OSError(errno.EEXIST, "is a link, which is not followed", str(self.path))
        self.path.mkdir(parents=parents, exist_ok=True)
        if self.is_there():
            return
        # What `write_text` left when it was killed before the folder had its mark is no file of anybody's.
        if any(path.suffix != ".part" for path in self.path.iterdir()):
            raise OSError(errno.EEXIST, f"holds files and not initbench's mark, {MARK_FILE}", str(self.path))
        write_text(self.path / MARK_FILE, self.mark, self.path, durable=True)

    def is_there(self) -> bool:
        """Return whether this process sees the folder, and no other, at its path."""
        return read_mark(self.path) == self.mark

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            if self.is_there() and [path.name for path in self.path.iterdir()] == [MARK_FILE]:
                (self.path / MARK_FILE).unlink()
                self.path.rmdir()


def read_mark(folder: Path) -> str | None:
    """Return what the mark of a folder says, None if it has none or a link is in its place."""
    if folder.is_symlink():
        return None
    with suppress(OSError, ValueError):
        return read_text(folder / MARK_FILE, _MOST_BYTES)
    return None


def files_named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the files of a folder that have exactly such names; none of one that cannot be read or is a link."""
    if folder.is_symlink():
        return []
    with suppress(OSError):
        return [path for path in folder.iterdir() if name.fullmatch(path.name)]
    return []
