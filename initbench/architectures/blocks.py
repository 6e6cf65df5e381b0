"""What the architectures share: activations, normalization and the scalar multiplier, by name."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Activation = Literal["relu", "swish", "beta_swish", "tanh", "linear"]
Norm = Literal["none", "batch"]


class BetaSwish(nn.Module):
    """β-Swish, x·sigmoid(βx), with one learnable scalar β that starts at 0, where the activation is x / 2.

    Source: Ramachandran et al., 2017; β from 0 in Dauphin & Schoenholz, 2019 (MetaInit), section 4.2.
    """

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return x * torch.sigmoid(self.beta * x)


class ScalarMultiplier(nn.Module):
    """Multiplies its input by one learnable scalar that starts at 1.

    Source: Zhang, Dauphin & Ma, 2019 (Fixup), rule 3; Dauphin & Schoenholz, 2019 (MetaInit), section 4.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return self.scale * x


_ACTIVATIONS: dict[Activation, type[nn.Module]] = {
    "relu": nn.ReLU,
    "swish": nn.SiLU,
    "beta_swish": BetaSwish,
    "tanh": nn.Tanh,
    "linear": nn.Identity,
}


def make_activation(name: Activation) -> nn.Module:
    """Return a new activation layer; every β-Swish layer has a β of its own."""
    return _ACTIVATIONS[name]()


def make_norm(name: Norm, features: int, dimensions: Literal[1, 2]) -> nn.Module:
    """Return a normalization layer, the identity for ``none``.

    Args:
        name: ``none`` or ``batch``.
        features: channels of an image, or features of a vector.
        dimensions: 2 for images (N, C, H, W), 1 for vectors (N, C).
    """
    if name == "none":
        return nn.Identity()
    return nn.BatchNorm2d(features) if dimensions == 2 else nn.BatchNorm1d(features)


def make_dropout(rate: float) -> nn.Module:
    """Return a dropout layer, the identity for a rate of 0.

    Raises:
        ValueError: the rate is not in [0, 1).
    """
    if not 0 <= rate < 1:
        raise ValueError(f"dropout must be at least 0 and less than 1, got {rate}")
    return nn.Dropout(rate) if rate else nn.Identity()
