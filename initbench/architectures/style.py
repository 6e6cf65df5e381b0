"""The common style of a network's layers: norm, activation, biases and the parts of its scheme.

Zhang, Dauphin & Ma (Fixup Initialization, ICLR 2019, rule 3) put a scalar bias before every convolution, linear layer
and activation, and a scalar multiplier at the end of every residual branch. No transform would find all these positions
in the authors' networks, so our architectures build the Fixup networks themselves. For other schemes they mark the ends
of branches.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.errors import ArgumentError
from initbench.registry import SCHEMES, STANDARD

STATED = ("fixup",)
"""The schemes whose networks are built without a transform."""


class BranchEnd(nn.Identity):
    """Marks the end of a residual branch, where a scheme may put a part; the identity without one.

    The scheme's part gets the name that the architecture gave the mark.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name is the base class's
        """Return the input."""
        return input


class Shortcut(nn.Identity):
    """The shortcut of a residual branch; a scheme may scale it (Admin)."""


def check_norm(scheme: str, norm: str) -> None:
    if norm != "none" and _is_instead_of_norm(scheme):
        raise ArgumentError(f"must be none for scheme {scheme}, got {norm}", "norm")


def make_scalar_bias(scheme: str) -> nn.Module:
    return ScalarBias() if scheme in STATED else nn.Identity()


def make_branch_end(scheme: str) -> nn.Module:
    """Return the end of a residual branch: Fixup's multiplier of 1, or the mark for another scheme's part."""
    return ScalarMultiplier() if scheme in STATED else BranchEnd()


def _is_registered(scheme: str) -> bool:
    # A scheme that only a plug-in's architecture knows is not registered and has no traits.
    return scheme != STANDARD and scheme in SCHEMES.names()


def _is_instead_of_norm(scheme: str) -> bool:
    return _is_registered(scheme) and SCHEMES.get(scheme).traits.instead_of_norm


@dataclass(frozen=True, kw_only=True)
class Style:
    """The common style of a network's convolutions, named like the arguments of its architecture.

    A norm or biases that are combined with a scheme that brings its own raise an ArgumentError.
    """

    norm: Norm
    activation: Activation
    conv_bias: bool = False
    scheme: str = STANDARD

    def __post_init__(self) -> None:
        check_norm(self.scheme, self.norm)
        if self.conv_bias and _is_registered(self.scheme) and SCHEMES.get(self.scheme).traits.brings_biases:
            raise ArgumentError(f"must be false for scheme {self.scheme}, which brings biases of its own", "conv_bias")

    def make_convolution(self, in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> nn.Conv2d:
        """Return a convolution that is padded to keep the size at stride 1.

        It has a bias if a scheme's transform replaces the norm that would bring one.
        """
        bias = self.conv_bias or (self.scheme not in STATED and _is_instead_of_norm(self.scheme))
        return nn.Conv2d(in_channels, out_channels, kernel, stride, padding=kernel // 2, bias=bias)

    def make_norm(self, channels: int, argument: str = "features") -> nn.Module:
        """Return a normalization of images; `argument` is the name of the channels in an error message."""
        return make_norm(self.norm, channels, 2, argument)

    def make_activation(self) -> nn.Module:
        return make_activation(self.activation)

    def make_scalar_bias(self) -> nn.Module:
        return make_scalar_bias(self.scheme)

    def make_branch_end(self) -> nn.Module:
        return make_branch_end(self.scheme)
