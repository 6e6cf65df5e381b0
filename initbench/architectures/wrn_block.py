"""The block of wide residual networks (Zagoruyko & Komodakis, 2016)."""

from __future__ import annotations

from functools import partial
from typing import Literal

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_drop_path, make_dropout, make_norm
from initbench.architectures.scalars import ScalarMultiplier
from initbench.architectures.under_scheme import make_branch_end, make_convolution, make_scalar_bias
from initbench.registry import STANDARD

ProjectionOf = Literal["activated", "input"]
StrideIn = Literal["first", "second"]


class Block(nn.Module):
    """Two 3×3 convolutions, each after norm and activation: B(3,3) of the paper, section 2.

    Without normalization a scalar multiplier ends the branch (Dauphin & Schoenholz, 2019, section 4); a scheme puts its
    own parts there, and before each activation and convolution. Where the number of channels changes, a 1×1 convolution
    of the normalized and activated input takes the skip's place, as in the paper's code.

    With x the skip and f the branch the block gives N(s · (x + b · f)), where N, s and b are the identity and 1 but for
    the variants of De & Smith (NeurIPS 2020) in their response to the reviewers.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        stride: of the first convolution and of the projection.
        residual: whether there is a skip.
        norm: normalization before each activation.
        activation: the activation's name.
        dropout: rate of the dropout between the convolutions.
        drop_path: rate at which the branch is dropped; 0 where there is no skip.
        multiplier: whether a scalar multiplier ends the branch where there is no norm.
        merge_norm: normalization N of the sum.
        sum_factor: s.
        branch_factor: b.
        projection_of: what the projection takes: the ``activated`` input, or the ``input`` itself.
        stride_in: which convolution has the stride, the ``first`` or the ``second``.
        conv_bias: whether convolutions have biases.
        scheme: see `initbench.architectures.under_scheme`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        stride: int,
        *,
        residual: bool,
        norm: Norm,
        activation: Activation,
        dropout: float,
        drop_path: float = 0.0,
        multiplier: bool = True,
        merge_norm: Norm = "none",
        sum_factor: float = 1.0,
        branch_factor: float = 1.0,
        projection_of: ProjectionOf = "activated",
        stride_in: StrideIn = "first",
        conv_bias: bool = False,
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        convolution = partial(make_convolution, scheme, conv_bias=conv_bias)
        self.norm1 = make_norm(norm, in_channels, 2)
        self.bias1a = make_scalar_bias(scheme)
        self.activation1 = make_activation(activation)
        self.bias1b = make_scalar_bias(scheme)
        strides = (stride, 1) if stride_in == "first" else (1, stride)
        self.conv1 = convolution(in_channels, out_channels, 3, stride=strides[0], padding=1)
        self.norm2 = make_norm(norm, out_channels, 2)
        self.bias2a = make_scalar_bias(scheme)
        self.activation2 = make_activation(activation)
        self.dropout = make_dropout(dropout)
        self.bias2b = make_scalar_bias(scheme)
        self.conv2 = convolution(out_channels, out_channels, 3, stride=strides[1], padding=1)
        alone = scheme == STANDARD and norm == "none" and multiplier
        self.multiplier = ScalarMultiplier() if alone else make_branch_end(scheme)
        self.drop_path = make_drop_path(drop_path)
        self.residual = residual
        self.projection: nn.Module | None = None
        if residual and in_channels != out_channels:
            self.projection = convolution(in_channels, out_channels, 1, stride=stride)
        self.merge_norm = make_norm(merge_norm, out_channels, 2)
        self.sum_factor, self.branch_factor = sum_factor, branch_factor
        self.projects_activated = projection_of == "activated"

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        activated = self.bias1b(self.activation1(self.bias1a(self.norm1(x))))
        hidden = self.activation2(self.bias2a(self.norm2(self.conv1(activated))))
        branch: Tensor = self.drop_path(self.multiplier(self.conv2(self.bias2b(self.dropout(hidden)))))
        if not self.residual:
            return branch
        shortcut = x
        if self.projection is not None:
            shortcut = self.projection(activated if self.projects_activated else x)
        if self.branch_factor != 1:
            branch = self.branch_factor * branch
        merged = shortcut + branch
        if self.sum_factor != 1:
            merged = self.sum_factor * merged
        result: Tensor = self.merge_norm(merged)
        return result
