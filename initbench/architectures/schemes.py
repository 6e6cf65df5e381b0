"""Schemes: the parts that some initialization methods need in a network; `rewrite` puts them into any model.

- ``standard``: none.
- ``fixup``: a scalar bias before every convolution, linear layer and activation, and a scalar multiplier at the end of
  every residual branch (Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, rule 3).
- ``skipinit``: a scalar gate α at the end of every residual branch, 0 at first, and biases in the convolutions (De &
  Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function, NeurIPS 2020, section 4).
- ``weight_norm``: every weight as g·v/‖v‖ (Salimans & Kingma, Weight Normalization, 2016), and biases in the
  convolutions. As in Arpit, Campos & Bengio, How to Initialize your Network?, NeurIPS 2019, the classifier is linear.

All three stand in the place of a normalization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.errors import ArgumentError

if TYPE_CHECKING:
    from initbench.architectures.blocks import Norm
    from initbench.architectures.residual import ResidualBranch

Scheme = Literal["standard", "fixup", "skipinit", "weight_norm"]
SCHEMES: tuple[Scheme, ...] = ("standard", "fixup", "skipinit", "weight_norm")


class ScalarMultiplier(nn.Module):
    """Multiplies its input by one learnable scalar.

    Source: Zhang, Dauphin & Ma, 2019 (Fixup), rule 3; Dauphin & Schoenholz, 2019 (MetaInit), section 4; De & Smith,
    2020 (SkipInit), section 4, where it starts at 0.

    Args:
        initial: its value at first.
    """

    def __init__(self, initial: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), initial))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return self.scale * x


class ScalarBias(nn.Module):
    """Adds one learnable scalar that starts at 0.

    Source: Zhang, Dauphin & Ma, 2019 (Fixup), rule 3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the shape of `x`."""
        return x + self.bias


def branch_multiplier(model: nn.Module, branch: ResidualBranch) -> ScalarMultiplier | None:
    """Return the scalar multiplier at the end of a model's residual branch, None where there is none."""
    owners = (model.get_submodule(gate.rpartition(".")[0]) for gate in branch.gates)
    return next((owner for owner in owners if isinstance(owner, ScalarMultiplier)), None)


def check_scheme(scheme: Scheme, norm: Norm) -> None:
    """Raise a ValueError where a scheme is to stand beside a normalization."""
    if scheme != "standard" and norm != "none":
        raise ArgumentError(f"must be none for scheme {scheme}, got {norm}", "norm")


def make_convolution(scheme: Scheme, in_channels: int, out_channels: int, kernel: int, **options: Any) -> nn.Module:
    """Return a convolution: with a bias and weight-normalized where the scheme says so.

    Args:
        scheme: see above.
        in_channels: of the input.
        out_channels: of the output.
        kernel: size.
        options: of `nn.Conv2d`, such as its stride.
    """
    bias = scheme in {"skipinit", "weight_norm"}
    convolution = nn.Conv2d(in_channels, out_channels, kernel, bias=bias, **options)
    return weight_norm(convolution) if scheme == "weight_norm" else convolution


def make_scalar_bias(scheme: Scheme) -> nn.Module:
    """Return a scalar bias in scheme ``fixup``, else the identity."""
    return ScalarBias() if scheme == "fixup" else nn.Identity()


def make_multiplier(scheme: Scheme) -> nn.Module:
    """Return what ends a residual branch: a multiplier of 1, a gate of 0, or the identity."""
    if scheme == "fixup":
        return ScalarMultiplier()
    return ScalarMultiplier(0.0) if scheme == "skipinit" else nn.Identity()
