"""Pairs of sentences as the inputs of a model, and batches of them that differ in length."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from initbench.inputs import END, PAD
from initbench.models.batches import Batch


def paired(source: Tensor, targets: Tensor) -> Tensor:
    """Return the inputs of a model, int64 (N, 2, L): the source, and the target that the decoder reads.

    The latter is shifted by one position, so that it begins with `END`, and the last token is left out.

    Args:
        source: sentences, int64 (N, L), each ended by `END` and filled with `PAD`.
        targets: their translations, likewise.
    """
    shifted = torch.cat([torch.full_like(targets[:, :1], END), targets[:, :-1]], 1)
    return torch.stack([source, shifted.masked_fill(targets == PAD, PAD)], 1)


def joined(first: Batch, second: Batch) -> Batch:
    """Return one batch of the samples of both; pairs of sentences are filled with `PAD` to the length of the longer."""
    (inputs, targets), (more_inputs, more_targets) = first, second
    if _are_pairs(first) and _are_pairs(second):
        longest = max(inputs.shape[-1], more_inputs.shape[-1])
        inputs, targets, more_inputs, more_targets = (
            functional.pad(t, (0, longest - t.shape[-1]), value=PAD) for t in (*first, *second)
        )
    return torch.cat([inputs, more_inputs]), torch.cat([targets, more_targets])


def _are_pairs(batch: Batch) -> bool:
    """Return whether a batch has the form of pairs of sentences: inputs (N, 2, L) and targets (N, L), integers."""
    inputs, targets = batch
    samples, length = len(inputs), inputs.shape[-1]
    shapes = (samples, 2, length), (samples, length)
    return (inputs.shape, targets.shape) == shapes and not (inputs.is_floating_point() or targets.is_floating_point())
