"""Folders for temporary files of the library. It marks the folders that it makes, and touches no file in others."""

import errno
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from initbench.files import read_text, write_text

MARK_FILE = ".folder"
"""Identifies the folder, so that a worker elsewhere knows whether the same path is the same folder."""
_MARK = re.compile(r"[0-9a-f]{32}")
_MOST_BYTES = 1_000


class MarkedFolder(NamedTuple):
    """A folder that the library made or will make, with the content of its file `MARK_FILE`.

    The path is absolute. It may lead through links, but a link in place of the folder itself is not followed.
    """

    path: Path
    mark: str

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the folder at a path, with its mark or else a new one. Nothing is written."""
        known = read_mark(path)
        return cls(path, known if known is not None and _MARK.fullmatch(known) else secrets.token_hex(16))

    def make(self, *, parents: bool = False) -> None:
        """Make and mark the folder, if that has not been done. The `strerror` of an OSError is the reason of a failure.

        A folder with files and without a mark belongs to somebody else. That includes networks of an interrupted run of
        version 0.2, which made no mark; they are left alone, because they only save time.
        """
        if self.path.is_symlink():
            raise OSError(errno.EEXIST, "is a link, which is not followed", str(self.path))
        self.path.mkdir(parents=parents, exist_ok=True)
        if self.is_there():
            return
        # A leftover of `write_text`, killed before the folder had its mark, belongs to nobody.
        if any(path.suffix != ".part" for path in self.path.iterdir()):
            raise OSError(errno.EEXIST, f"holds files but not initbench's mark, {MARK_FILE}", str(self.path))
        write_text(self.path / MARK_FILE, self.mark, self.path, durable=True)

    def is_there(self) -> bool:
        """Return whether this process sees this very folder at its path."""
        return read_mark(self.path) == self.mark

    def remove_if_empty(self) -> None:
        with suppress(OSError):
            if self.is_there() and [path.name for path in self.path.iterdir()] == [MARK_FILE]:
                (self.path / MARK_FILE).unlink()
                self.path.rmdir()


def read_mark(folder: Path) -> str | None:
    """Return the content of a folder's mark; None if it has none or the mark is a link."""
    if folder.is_symlink():
        return None
    with suppress(OSError, ValueError):
        return read_text(folder / MARK_FILE, _MOST_BYTES)
    return None


def files_named(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the files whose names match exactly; none if the folder cannot be read or is a link."""
    if folder.is_symlink():
        return []
    with suppress(OSError):
        return [path for path in folder.iterdir() if name.fullmatch(path.name)]
    return []
