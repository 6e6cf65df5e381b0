"""Scalars that schemes add to networks: multipliers and biases."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ScalarMultiplier(nn.Module):
    """Multiplies its input by one learnable scalar.

    Source: Zhang, Dauphin & Ma, 2019 (Fixup), rule 3; Dauphin & Schoenholz, 2019 (MetaInit), section 4; De & Smith,
    2020 (SkipInit), section 4, where it starts at 0.

    Args:
        initial: initial value of the scalar.
    """

    def __init__(self, initial: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), initial))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return self.scale * x


class ConstantMultiplier(nn.Module):
    """Multiplies its input by a fixed number.

    Args:
        factor: the number.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return self.factor * x

    def extra_repr(self) -> str:
        return f"{self.factor:g}"


class ScalarBias(nn.Module):
    """Adds one learnable scalar that starts at 0.

    Source: Zhang, Dauphin & Ma, 2019 (Fixup), rule 3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
