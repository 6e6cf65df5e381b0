"""Text before it is tokens: files that are read as UTF-8, joined, and cut into splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Between the files of a split: the byte 0, which text does not have. It is predicted and counted like any other.
SEPARATOR = b"\0"


def read_text(dataset: str, path: Path) -> bytes:
    """Return the bytes of a file of text, as they are.

    Args:
        dataset: the registered name, for the error.
        path: the file.

    Raises:
        DataError: it cannot be read, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{dataset}: {path} cannot be read ({error.strerror or error})") from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{dataset}: {path} is not UTF-8 at byte {error.start} (0x{content[error.start]:02x}): "
            "convert it, such as by iconv"
        ) from error
    return content


def join(texts: Iterable[bytes]) -> bytes:
    """Return several files as one text, with `SEPARATOR` between them."""
    return SEPARATOR.join(texts)


def cut(text: bytes, validation_share: float, test_share: float) -> tuple[bytes, bytes, bytes]:
    """Return the beginning of a text to train on, what follows for validation, and its end for test.

    No character is cut in two: its whole is in the later part.

    Args:
        text: UTF-8.
        validation_share: of the bytes, rounded down.
        test_share: of the bytes, rounded down.
    """
    test = _character(text, len(text) - int(len(text) * test_share))
    validation = _character(text, test - int(len(text) * validation_share))
    return text[:validation], text[validation:test], text[test:]


def check_shares(validation_share: float, test_share: float) -> None:
    """Refuse shares that leave nothing to train on, or nothing to test on.

    Raises:
        ArgumentError: one is out of its range.
    """
    if validation_share < 0:
        raise ArgumentError(f"must be at least 0, got {validation_share:g}", "validation_share")
    if not 0 < test_share < 1:
        raise ArgumentError(f"must be between 0 and 1, got {test_share:g}", "test_share")
    if validation_share + test_share >= 1:
        raise ArgumentError(f"must leave a share to train on, got {validation_share:g}", "validation_share")


def _character(text: bytes, position: int) -> int:
    """Return where the character at a position begins."""
    while 0 < position < len(text) and text[position] & 0xC0 == 0x80:
        position -= 1
    return position
