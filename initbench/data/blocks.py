"""Packed blocks: a text of tokens, one after another, cut into samples of equal length."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from initbench.data.dataset import Split, Splits
from initbench.data.prepare import SPLIT_SEED, take_first
from initbench.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

SIZES = ("train_size", "validation_size", "test_size")
BYTES = 256
"""The vocabulary of text whose tokens are its bytes."""


def check_blocks(context: int, **sizes: int | None) -> None:
    """Refuse sizes that no text can have.

    Args:
        context: tokens of a block.
        sizes: blocks of splits by the arguments' names, such as ``train_size``; None for all.

    Raises:
        ArgumentError: one is too small.
    """
    if context < 1:
        raise ArgumentError(f"must be at least 1, got {context}", "context")
    for name, size in sizes.items():
        least = 0 if name == "validation_size" else 1
        if size is not None and size < least:
            raise ArgumentError(f"must be at least {least}, got {size}", name)


def byte_tokens(text: bytes) -> Tensor:
    """Return each byte as a token from 0 to 255, int64."""
    if not text:
        return torch.empty(0, dtype=torch.int64)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def blocks(tokens: Tensor, context: int) -> Split:
    """Return a text as blocks.

    With T = `context`, block i has the inputs x[i·T : (i + 1)·T] and the targets x[i·T + 1 : (i + 1)·T + 1]. So every
    token but the first is a target exactly once, up to the rest that fills no block.

    Args:
        tokens: x, int64, 1-dim.
        context: tokens of a block.

    Returns:
        Inputs and targets, int64 (N, T), N = (len(x) - 1) // T; both are views of x.
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
    """Return texts as splits of blocks; no token of one is in a block of another.

    Args:
        name: the dataset's registered name, for the error.
        texts: the tokens of the training, validation and test text, int64, 1-dim; that for validation may be empty.
        context: tokens of a block.
        sizes: how many blocks to take, as ``train_size``, ``validation_size`` and ``test_size``: chosen at random, the
            same for every trial, and of smaller sizes a part of those of larger ones; they stay in the order of the
            text. None, and what is not given, for all.
        token_bytes: the bytes that each token stands for, see `Splits`.

    Raises:
        ArgumentError: there are not so many blocks.
        DataError: a text is shorter than one block.
    """
    for split, tokens in zip(("training", "validation", "test"), texts, strict=True):
        if len(tokens) <= context and not (split == "validation" and len(tokens) == 0):
            raise DataError(
                f"{name}: the {split} text has {len(tokens)} tokens, a block of context {context} takes {context + 1}: "
                "give more text, or a smaller context"
            )
    train, validation, test = (
        _part(blocks(tokens, context), sizes.get(name), name) for tokens, name in zip(texts, SIZES, strict=True)
    )
    return Splits(train, validation, test, token_bytes=token_bytes)


def _part(split: Split, size: int | None, name: str) -> Split:
    """Return some blocks of a split in their order, or all of them."""
    if size is None:
        return split
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(SPLIT_SEED))
    return Split(*split.take(take_first(order, size, name).sort().values))
