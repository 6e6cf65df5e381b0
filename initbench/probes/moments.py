"""Sums of a signal's entries and of their squares, from which its mean square and deviation follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Moments:
    """What is known of the entries of several tensors together.

    Attributes:
        entries: their number.
        samples: the number of samples, along the first dimension.
        total: the sum of the entries, 0-dim in float64.
        squares: of their squares.
    """

    entries: int = 0
    samples: int = 0
    total: Tensor | float = 0.0
    squares: Tensor | float = 0.0

    def add(self, tensor: Tensor) -> None:
        """Add a tensor's entries, in float64, because squares of large float32 numbers overflow; nothing waits."""
        wide = tensor.detach().double()
        self.entries += tensor.numel()
        self.samples += len(tensor) if tensor.dim() else 1
        self.total = self.total + wide.sum()
        self.squares = self.squares + wide.square().sum()

    @property
    def mean_square(self) -> float:
        """The mean of the squares."""
        return float(self.squares) / self.entries

    @property
    def squared_norm(self) -> float:
        """The mean over the samples of the sum of the squares of each."""
        return float(self.squares) / self.samples

    @property
    def deviation(self) -> float:
        """The standard deviation over units and samples, the population's."""
        mean = float(self.total) / self.entries
        return math.sqrt(max(self.mean_square - mean**2, 0.0))
