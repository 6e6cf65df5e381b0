"""Sums of derivatives over micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor


def accumulated(parts: Iterable[Sequence[Tensor | None]]) -> list[Tensor | None]:
    """Return the sum of lists of tensors, entry by entry, None where all are.

    Args:
        parts: one list after another; a generator makes the next one, with its graph, when the last is added.
    """
    total: list[Tensor | None] = []
    for part in parts:
        if not total:
            total = [None] * len(part)
        pairs = zip(total, part, strict=True)
        # Not in place: a derivative may share its memory with another.
        total = [new if old is None else old if new is None else old + new for old, new in pairs]
    return total
