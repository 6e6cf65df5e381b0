"""The residual branches of a model, as its structure has them."""

from __future__ import annotations

import torch

from initbench.structure.find import find_structure


def residual_branches(model, shape=(3, 8, 8), vocabulary=None):
    """Find them with one sample of zeros of a shape, or of tokens."""
    like = next(model.parameters(), torch.zeros(()))
    kind = like.dtype if vocabulary is None else torch.int64
    return list(find_structure(model, torch.zeros(1, *shape, dtype=kind, device=like.device)).branches)
