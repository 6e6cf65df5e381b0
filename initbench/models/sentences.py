"""Pairs of sentences as the inputs of a model."""

from __future__ import annotations

import torch
from torch import Tensor

from initbench.inputs import END, PAD


def paired(source: Tensor, targets: Tensor) -> Tensor:
    """Return the inputs of a model, int64 (N, 2, L): the source, and the target that the decoder reads.

    The latter is shifted by one position, so that it begins with `END`, and the last token is left out.

    Args:
        source: sentences, int64 (N, L), each ended by `END` and filled with `PAD`.
        targets: their translations, likewise.
    """
    shifted = torch.cat([torch.full_like(targets[:, :1], END), targets[:, :-1]], 1)
    return torch.stack([source, shifted.masked_fill(targets == PAD, PAD)], 1)
