"""The branches that residual networks for small and for large images share (He, Zhang, Ren & Sun, 2016, figure 5)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.under_scheme import make_convolution, make_scalar_bias

BlockKind = Literal["basic", "bottleneck"]
KERNELS: dict[BlockKind, tuple[int, ...]] = {"basic": (3, 3), "bottleneck": (1, 3, 1)}
"""Kernel sizes of a block's convolutions."""
EXPANSION: dict[BlockKind, int] = {"basic": 1, "bottleneck": 4}
"""A block's outputs over its inner channels."""


class Layer(nn.Module):
    """One convolution of a branch with what stands round it: scalar bias, convolution, norm, scalar bias, activation.

    The branch's last one has neither the second bias nor the activation.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int,
        *,
        norm: Norm,
        activation: Activation | None,
        scheme: str,
        conv_bias: bool,
    ) -> None:
        super().__init__()
        self.bias_a = make_scalar_bias(scheme)
        self.convolution = make_convolution(
            scheme, in_channels, out_channels, kernel, conv_bias=conv_bias, stride=stride, padding=kernel // 2
        )
        self.norm = make_norm(norm, out_channels, 2)
        self.bias_b = make_scalar_bias(scheme) if activation else nn.Identity()
        self.activation = make_activation(activation) if activation else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        result: Tensor = self.activation(self.bias_b(self.norm(self.convolution(self.bias_a(x)))))
        return result


def make_branch(
    in_channels: int,
    channels: int,
    stride: int,
    *,
    kind: BlockKind,
    norm: Norm,
    activation: Activation,
    scheme: str,
    conv_bias: bool,
) -> nn.Sequential:
    """Return two 3×3 convolutions, or 1×1, 3×3 and 1×1 with a quarter of the channels inside, as `Layer`s.

    The first 3×3 convolution has the stride.

    Args:
        in_channels: channels of the input.
        channels: of the convolutions inside.
        stride: of the branch.
        kind: ``basic`` or ``bottleneck``.
        norm: after each convolution.
        activation: after each convolution but the last.
        scheme: see `initbench.architectures.under_scheme`.
        conv_bias: whether convolutions have biases.
    """
    kernels = KERNELS[kind]
    sizes = [in_channels, *[channels] * (len(kernels) - 1), channels * EXPANSION[kind]]
    layers = nn.Sequential()
    for index, kernel in enumerate(kernels):
        last = index == len(kernels) - 1
        layers.append(
            Layer(
                sizes[index],
                sizes[index + 1],
                kernel,
                stride if index == kernels.index(3) else 1,
                norm=norm,
                activation=None if last else activation,
                scheme=scheme,
                conv_bias=conv_bias,
            )
        )
    return layers
