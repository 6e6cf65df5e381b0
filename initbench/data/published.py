"""Published files with a checksum: downloaded if they are missing, and checked when they are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import socket
import zlib
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib.resources.abc import Traversable
from pathlib import Path

from filelock import FileLock

from initbench.errors import DataError

# A connection is abandoned after this many seconds without a byte.
TIMEOUT = 15.0


class ChecksumError(DataError):
    """A file exists, but it is not the published one."""

    def __init__(self, dataset: str, file: str, checksum: str, published: str) -> None:
        super().__init__(dataset, file, checksum, published)
        self.dataset, self.file, self.checksum, self.published = dataset, file, checksum, published

    def __str__(self) -> str:
        return (
            f"{self.dataset}: {self.file} is not the published file: "
            f"its checksum is {self.checksum}, the published one {self.published}; put the published file in its place"
        )


def read_published(dataset: str, path: Path | Traversable, published: str, *, decompress: bool = True) -> bytes:
    """Return the bytes of a file.

    `published` is the checksum of the returned bytes: ``md5:`` or ``sha256:`` and hexadecimal digits. A file whose name
    ends in ``.gz`` is decompressed first, unless `decompress` is false.
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if decompress and path.name.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{dataset}: {path} cannot be read ({error}): put the published file in its place") from error
    algorithm = published.partition(":")[0]
    checksum = f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"
    if checksum != published:
        raise ChecksumError(dataset, str(path), checksum, published)
    return content


def download(name: str, root: Path, present: Callable[[], bool], fetch: Callable[[], None], instructions: str) -> None:
    """Fetch a dataset's files into the data root unless they exist.

    `present` returns whether they do; it is called again under the lock, because another process may have fetched them.
    `instructions` says which files to put where by hand, for the error message.
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
            f"set INITBENCH_DATA to a writable folder, or {instructions}"
        ) from error
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        # torchvision prints each attempt and draws a progress bar, which would disturb our own display.
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            if not present():
                fetch()
    except (OSError, RuntimeError, EOFError) as error:
        raise DataError(f"{name} is missing and cannot be downloaded ({_reason(error)}): {instructions}") from error
    finally:
        socket.setdefaulttimeout(before)
        lock.release()
        # A failed request leaves nothing behind. Processes that waited for the lock call `present` again anyway.
        Path(lock.lock_file).unlink(missing_ok=True)
        if made:
            with suppress(OSError):  # it holds the data
                root.rmdir()


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(":. ") or type(error).__name__
