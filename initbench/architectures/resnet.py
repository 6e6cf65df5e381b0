"""Residual networks for small images (He, Zhang, Ren & Sun, 2016), with the activation after the addition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn.functional import pad

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.resnet_blocks import EXPANSION, KERNELS, BlockKind, make_branch
from initbench.architectures.under_scheme import (
    STATED,
    check_conv_bias,
    check_norm,
    make_branch_end,
    make_convolution,
    make_scalar_bias,
)
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAPER = "He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2"
_DEEPEST = 100_000


class Block(nn.Module):
    """Figure 5 of the paper: two 3×3 convolutions, or 1×1, 3×3 and 1×1 with a quarter of the channels inside.

    The shortcut has no parameters (option A): every stride-th pixel, zeros for the channels that are added. As in the
    authors' code of Fixup it takes the input after the branch's first scalar bias where it is not the identity, and
    another scalar bias follows the multiplier.

    Args:
        in_channels: channels of the input.
        channels: of the convolutions inside.
        stride: of the first 3×3 convolution and of the shortcut.
        kind: ``basic`` or ``bottleneck``.
        norm: after each convolution.
        activation: after each convolution but the last, and after the addition.
        scheme: see `initbench.architectures.under_scheme`.
        conv_bias: whether convolutions have biases.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        stride: int,
        *,
        kind: BlockKind,
        norm: Norm,
        activation: Activation,
        scheme: str,
        conv_bias: bool,
    ) -> None:
        super().__init__()
        self.layers = make_branch(
            in_channels,
            channels,
            stride,
            kind=kind,
            norm=norm,
            activation=activation,
            scheme=scheme,
            conv_bias=conv_bias,
        )
        self.multiplier = make_branch_end(scheme)
        self.bias = make_scalar_bias(scheme)
        self.activation = make_activation(activation)
        self.stride, self.added_channels = stride, channels * EXPANSION[kind] - in_channels

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        branch: Tensor = self.bias(self.multiplier(self.layers(x)))
        shortcut = x
        if self.stride > 1 or self.added_channels:
            shortcut = self.layers.get_submodule("0.bias_a")(x)[:, :, :: self.stride, :: self.stride]
            shortcut = pad(shortcut, (0, 0, 0, 0, 0, self.added_channels))
        result: Tensor = self.activation(branch + shortcut)
        return result


class ResNet(nn.Module):
    """A 3×3 convolution, norm, activation, three groups of blocks, global average pooling and a linear classifier.

    Args:
        depth: 6n + 2 with basic blocks, 9n + 2 with bottlenecks; n blocks in each group.
        width: the groups' convolutions have 16, 32 and 64 times as many channels.
        block: ``basic`` or ``bottleneck``.
        norm: after each convolution.
        activation: the activation's name.
        scheme: see `initbench.architectures.under_scheme`.
        conv_bias: whether convolutions have biases.
        inputs: images.
        outputs: number of classes.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases stand beside a scheme.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        *,
        block: BlockKind,
        norm: Norm,
        activation: Activation,
        scheme: str,
        conv_bias: bool,
        inputs: Inputs,
        outputs: int,
    ) -> None:
        super().__init__()
        per_block = 3 * len(KERNELS[block])
        if depth > _DEEPEST:
            raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
        if depth < per_block + 2 or (depth - 2) % per_block:
            example = ", ".join(str(per_block * n + 2) for n in (1, 2, 3))
            raise ArgumentError(f"must be {per_block}n + 2 with {block} blocks ({example}, ...), got {depth}", "depth")
        if width < 1:
            raise ArgumentError(f"must be at least 1, got {width}", "width")
        check_norm(scheme, norm)
        check_conv_bias(scheme, conv_bias)
        self.stem = make_convolution(scheme, inputs.shape[0], 16, 3, conv_bias=conv_bias, padding=1)
        self.norm = make_norm(norm, 16, 2)
        self.bias1 = make_scalar_bias(scheme)
        self.activation = make_activation(activation)
        self.groups = nn.Sequential()
        channels = 16
        for number in range(3):
            inside = 16 * width * 2**number
            group = nn.Sequential()
            for index in range((depth - 2) // per_block):
                stride = 2 if number > 0 and index == 0 else 1
                group.append(
                    Block(
                        channels,
                        inside,
                        stride,
                        kind=block,
                        norm=norm,
                        activation=activation,
                        scheme=scheme,
                        conv_bias=conv_bias,
                    )
                )
                channels = inside * EXPANSION[block]
            self.groups.append(group)
        self.bias2 = make_scalar_bias(scheme)
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features = self.groups(self.activation(self.bias1(self.norm(self.stem(x)))))
        logits: Tensor = self.classifier(self.bias2(features.mean((2, 3))))
        return logits


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    step = 3 * len(KERNELS[arguments["block"]])
    return Shallow.of_depth(arguments["depth"], 2 * step + 2, step, _DEEPEST)


@register_architecture("resnet", schemes=STATED, reference=_PAPER, shallow=_shallow)
def resnet(
    depth: int = 20,
    width: int = 1,
    block: BlockKind = "basic",
    norm: Norm = "batch",
    activation: Activation = "relu",
    conv_bias: bool = False,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Residual network for small images, ResNet-20 to ResNet-1202, with shortcuts that have no parameters (option A).

    No convolution has a bias in the standard scheme, unless `conv_bias` asks for it. With scheme fixup it is the
    network of Fixup's authors: 268,393 parameters at depth 20.

    Args:
        depth: 6n + 2 (8, 14, 20, ..., 110) with basic blocks, 9n + 2 with bottlenecks.
        width: multiplies the groups' 16, 32 and 64 channels.
        block: basic (two 3×3 convolutions) or bottleneck (1×1, 3×3, 1×1, with four times as many channels outside).
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases stand beside a scheme.
    """
    return ResNet(
        depth,
        width,
        block=block,
        norm=norm,
        activation=activation,
        scheme=scheme,
        conv_bias=conv_bias,
        inputs=inputs,
        outputs=outputs,
    )
