"""Sentences and their translations as the samples of a split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import numpy as np
import torch
from torch import Tensor

from initbench.data.dataset import Samples
from initbench.inputs import END, PAD
from initbench.models.batches import to_device
from initbench.models.sentences import paired


@dataclass(frozen=True)
class SentencePairs(Samples):
    """Pairs of sentences; a batch of them is as long as its longest sentence, not as the longest of the split.

    Attributes:
        source: tokens, each row ended by `END` and filled with `PAD`, int64 (N, longest).
        targets: tokens of the translations, likewise.
        positions: the most tokens that a sentence may have, with its `END`.
    """

    source: Tensor
    targets: Tensor
    positions: int

    @classmethod
    def of(cls, source: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], positions: int) -> SentencePairs:
        """Return sentences given as their tokens, without `END` and `PAD`."""
        longest = max((len(tokens) for tokens in (*source, *targets)), default=0) + 1
        return cls(_rows(source, longest), _rows(targets, longest), positions)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return 2, self.positions

    @property
    def index_device(self) -> torch.device:
        """The CPU, where the lengths are: a GPU need not be waited for to know how long a batch is."""
        return torch.device("cpu")

    @cached_property
    def lengths(self) -> Tensor:
        """Tokens in the longer sentence of each pair, with its `END`, int64 (N,), on the CPU."""
        return torch.maximum(*((side != PAD).sum(1) for side in (self.source, self.targets))).cpu()

    def take(self, samples: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the inputs, int64 (n, 2, L), and targets, (n, L), of some pairs; L is the length of the longest."""
        longest = int(self.lengths[samples].max())
        rows = samples if isinstance(samples, slice) else to_device(samples, self.device)
        source, targets = self.source[rows, :longest], self.targets[rows, :longest]
        return paired(source, targets), targets

    def to(self, device: torch.device | str) -> SentencePairs:
        return replace(self, source=self.source.to(device), targets=self.targets.to(device))


def _rows(sentences: Sequence[Sequence[int]], longest: int) -> Tensor:
    rows = np.full((len(sentences), longest), PAD, np.int64)
    for row, tokens in zip(rows, sentences, strict=True):
        row[: len(tokens)] = tokens
        row[len(tokens)] = END
    return torch.from_numpy(rows)


def before_end(tokens: Iterable[int]) -> list[int]:
    """Return the tokens of a sentence up to its `END`, without `PAD`."""
    return [int(token) for token in takewhile(lambda token: token != END, tokens) if token != PAD]
