"""What our architectures build under a scheme: Fixup's parts themselves, and places for those of all other schemes.

Zhang, Dauphin & Ma (Fixup Initialization, ICLR 2019, rule 3) have a scalar bias before every convolution, linear layer
and activation, and a scalar multiplier at the end of every residual branch. The authors' networks have them in places
that no transform would find, so the architectures state these networks.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.errors import ArgumentError
from initbench.registry import SCHEMES, STANDARD

STATED = ("fixup",)
"""The schemes that the networks of this module's users have without a transform."""


class BranchEnd(nn.Identity):
    """The place, at the end of a residual branch, for what a scheme ends branches with; the identity without one.

    An architecture that has one under a name of its choice keeps that name for the scheme's part.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  # the name is the base class's
        """Return the input."""
        return input


def check_norm(scheme: str, norm: str) -> None:
    """Raise an ArgumentError where a scheme that stands in the place of a normalization is to stand beside one."""
    if norm != "none" and _is_instead_of_norm(scheme):
        raise ArgumentError(f"must be none for scheme {scheme}, got {norm}", "norm")


def check_conv_bias(scheme: str, conv_bias: bool) -> None:
    """Raise an ArgumentError where convolutions are to have biases beside those that a scheme brings."""
    if conv_bias and _is_registered(scheme) and SCHEMES.get(scheme).traits.brings_biases:
        raise ArgumentError(f"must be false for scheme {scheme}, which brings biases of its own", "conv_bias")


def make_convolution(
    scheme: str, in_channels: int, out_channels: int, kernel: int, *, conv_bias: bool = False, **options: Any
) -> nn.Conv2d:
    """Return a convolution, with a bias where a scheme's transform takes the place of the norm that would bring one.

    Args:
        scheme: what the network is built for.
        in_channels: of the input.
        out_channels: of the output.
        kernel: size.
        conv_bias: whether it has a bias in any case.
        options: of `nn.Conv2d`, such as its stride.
    """
    bias = conv_bias or (scheme not in STATED and _is_instead_of_norm(scheme))
    return nn.Conv2d(in_channels, out_channels, kernel, bias=bias, **options)


def make_scalar_bias(scheme: str) -> nn.Module:
    """Return a scalar bias in scheme ``fixup``, else the identity."""
    return ScalarBias() if scheme in STATED else nn.Identity()


def make_branch_end(scheme: str) -> nn.Module:
    """Return what ends a residual branch: Fixup's multiplier of 1, or the place for another scheme's part."""
    return ScalarMultiplier() if scheme in STATED else BranchEnd()


def _is_registered(scheme: str) -> bool:
    # Of a scheme that a plug-in's architecture alone has nothing more is known.
    return scheme != STANDARD and scheme in SCHEMES.names()


def _is_instead_of_norm(scheme: str) -> bool:
    return _is_registered(scheme) and SCHEMES.get(scheme).traits.instead_of_norm
