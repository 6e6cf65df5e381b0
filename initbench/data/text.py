"""Text as samples: read as UTF-8, joined, cut into splits, and packed as blocks of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from initbench.arguments import check_counts
from initbench.data.dataset import Split, Splits
from initbench.data.prepare import SPLIT_SEED, check_split_sizes, take_first
from initbench.errors import ArgumentError, DataError

# The byte 0, which text does not contain, separates the files of a split. It is predicted and counted like any other.
SEPARATOR = b"\0"

SIZES = ("train_size", "validation_size", "test_size")
BYTES = 256
"""Vocabulary size if the tokens are bytes."""


def read_text(dataset: str, path: Path) -> bytes:
    """Return the bytes of a text file unchanged, if they are UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{dataset}: {path} cannot be read ({error.strerror or error})") from error
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{dataset}: {path} is not UTF-8 at byte {error.start} (0x{content[error.start]:02x}): "
            "convert it, for example with iconv"
        ) from error
    return content


def join(texts: Iterable[bytes]) -> bytes:
    return SEPARATOR.join(texts)


def cut(text: bytes, validation_share: float, test_share: float) -> tuple[bytes, bytes, bytes]:
    """Return the beginning of a text for training, the following part for validation, and the end for test.

    No character is cut in two; it goes to the later part. Shares are of the bytes, rounded down.
    """
    test = _character(text, len(text) - int(len(text) * test_share))
    validation = _character(text, test - int(len(text) * validation_share))
    return text[:validation], text[validation:test], text[test:]


def check_shares(validation_share: float, test_share: float) -> None:
    if validation_share < 0:
        raise ArgumentError(f"must be at least 0, got {validation_share:g}", "validation_share")
    if not 0 < test_share < 1:
        raise ArgumentError(f"must be between 0 and 1, got {test_share:g}", "test_share")
    if validation_share + test_share >= 1:
        raise ArgumentError(f"must leave a share to train on, got {validation_share:g}", "validation_share")


def _character(text: bytes, position: int) -> int:
    while 0 < position < len(text) and text[position] & 0xC0 == 0x80:
        position -= 1
    return position


def check_blocks(context: int, **sizes: int | None) -> None:
    check_counts(context=context)
    check_split_sizes(**sizes)


def byte_tokens(text: bytes) -> Tensor:
    """Return each byte as a token from 0 to 255, int64."""
    if not text:
        return torch.empty(0, dtype=torch.int64)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def blocks(tokens: Tensor, context: int) -> Split:
    """Return a text, tokens x, as blocks: inputs and targets, int64 (N, T), N = (len(x) - 1) // T, views of x.

    With T = `context`, block i has the inputs x[i·T : (i + 1)·T] and the targets x[i·T + 1 : (i + 1)·T + 1]. So every
    token except the first is a target exactly once, up to the rest that does not fill a block.
    """
    count = max(0, len(tokens) - 1) // context
    inputs, targets = (tokens[first : first + count * context].view(count, context) for first in (0, 1))
    return Split(inputs, targets)


def pack(
    name: str,
    texts: tuple[Tensor, Tensor, Tensor],
    *,
    context: int,
    sizes: Mapping[str, int | None] = MappingProxyType({}),
    token_bytes: Tensor | None = None,
) -> Splits:
    """Return texts as splits of blocks; no token of one text is in a block of another.

    Args:
        name: the dataset's registered name, for the error message.
        texts: the tokens of the training, validation and test text, int64, 1-dim; the validation text may be empty.
        context: tokens per block.
        sizes: number of blocks to take, as ``train_size``, ``validation_size`` and ``test_size``; all if None. They are
            chosen at random, the same for every trial, in the order of the text; smaller subsets are parts of larger
            ones.
        token_bytes: the bytes in each token, see `Splits`.
    """
    for split, tokens in zip(("training", "validation", "test"), texts, strict=True):
        if len(tokens) <= context and not (split == "validation" and len(tokens) == 0):
            raise DataError(
                f"{name}: the {split} text has {len(tokens)} tokens, but a block of context {context} needs "
                f"{context + 1}: give more text, or a smaller context"
            )
    train, validation, test = (
        _part(blocks(tokens, context), sizes.get(name), name) for tokens, name in zip(texts, SIZES, strict=True)
    )
    return Splits(train, validation, test, token_bytes=token_bytes)


def _part(split: Split, size: int | None, name: str) -> Split:
    if size is None:
        return split
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(SPLIT_SEED))
    return Split(*split.take(take_first(order, size, name).sort().values))
