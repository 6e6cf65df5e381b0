"""Batches of sentences by their tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def token_batches(lengths: Tensor, batch_tokens: int, ties: torch.Generator) -> list[Tensor]:
    """Return the indices of each batch's samples, int64: every sample once, sorted by length.

    A batch has as many samples as fit: its longest sentence times its samples is at most `batch_tokens`, so that
    padding counts, as with ``--max-tokens`` of fairseq. The number of batches depends only on the lengths.

    Args:
        lengths: tokens in the longer sentence of each pair, int64 (N,), at most `batch_tokens`.
        batch_tokens: the most tokens in a batch, of the source or of the target.
        ties: orders samples of one length at random.
    """
    shuffled = torch.randperm(len(lengths), generator=ties, device="cpu")
    order = shuffled[lengths[shuffled].argsort(stable=True)]
    sizes: list[int] = []
    for length in lengths[order].tolist():
        if not sizes or (sizes[-1] + 1) * length > batch_tokens:
            sizes.append(0)
        sizes[-1] += 1
    return list(torch.split(order, sizes)) if sizes else []
