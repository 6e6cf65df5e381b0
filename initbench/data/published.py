"""Files that were published with a checksum, and are checked against it when they are read."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import TYPE_CHECKING

from initbench.errors import DataError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path


class ChecksumError(DataError):
    """A file is there, but it is not the published one.

    Args:
        dataset: the registered name.
        file: the file's path.
        found: its checksum, ``sha256:...``.
        published: the checksum that it should have.

    Attributes:
        dataset: as given.
        file: as given.
        found: as given.
        published: as given.
    """

    def __init__(self, dataset: str, file: str, found: str, published: str) -> None:
        super().__init__(dataset, file, found, published)
        self.dataset, self.file, self.found, self.published = dataset, file, found, published

    def __str__(self) -> str:
        return (
            f"{self.dataset}: {self.file} is not the published file: "
            f"its checksum is {self.found}, the published one {self.published}; put the published file in its place"
        )


def read_published(dataset: str, path: Path | Traversable, published: str, *, decompress: bool = True) -> bytes:
    """Return the bytes of a file.

    Args:
        dataset: the registered name, for the error.
        path: the file.
        published: the checksum of the returned bytes: ``md5:`` or ``sha256:`` and hexadecimal digits.
        decompress: whether one whose name ends in ``.gz`` is decompressed first.

    Raises:
        DataError: the file cannot be read.
        ChecksumError: the file is another.
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if decompress and path.name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{dataset}: {path} cannot be read ({error}): put the published file in its place") from error
    algorithm = published.partition(":")[0]
    found = f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"
    if found != published:
        raise ChecksumError(dataset, str(path), found, published)
    return content
