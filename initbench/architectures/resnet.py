"""Residual networks for small images (He, Zhang, Ren & Sun, 2016), with the activation after the addition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn
from torch.nn.functional import pad

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.under_scheme import (
    STATED,
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
BlockKind = Literal["basic", "bottleneck"]
# Kernel sizes of a block's convolutions, and its outputs over its inner channels.
_KERNELS: dict[BlockKind, tuple[int, ...]] = {"basic": (3, 3), "bottleneck": (1, 3, 1)}
_EXPANSION: dict[BlockKind, int] = {"basic": 1, "bottleneck": 4}


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
    ) -> None:
        super().__init__()
        self.bias_a = make_scalar_bias(scheme)
        self.convolution = make_convolution(
            scheme, in_channels, out_channels, kernel, stride=stride, padding=kernel // 2
        )
        self.norm = make_norm(norm, out_channels, 2)
        self.bias_b = make_scalar_bias(scheme) if activation else nn.Identity()
        self.activation = make_activation(activation) if activation else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        result: Tensor = self.activation(self.bias_b(self.norm(self.convolution(self.bias_a(x)))))
        return result


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
    ) -> None:
        super().__init__()
        kernels, out_channels = _KERNELS[kind], channels * _EXPANSION[kind]
        sizes = [in_channels, *[channels] * (len(kernels) - 1), out_channels]
        self.layers = nn.Sequential()
        for index, kernel in enumerate(kernels):
            last = index == len(kernels) - 1
            self.layers.append(
                Layer(
                    sizes[index],
                    sizes[index + 1],
                    kernel,
                    stride if index == kernels.index(3) else 1,
                    norm=norm,
                    activation=None if last else activation,
                    scheme=scheme,
                )
            )
        self.multiplier = make_branch_end(scheme)
        self.bias = make_scalar_bias(scheme)
        self.activation = make_activation(activation)
        self.stride, self.added_channels = stride, out_channels - in_channels

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
        inputs: images.
        outputs: number of classes.

    Raises:
        ArgumentError: depth or width is impossible, or a norm stands beside a scheme.
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
        inputs: Inputs,
        outputs: int,
    ) -> None:
        super().__init__()
        per_block = 3 * len(_KERNELS[block])
        if depth > _DEEPEST:
            raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
        if depth < per_block + 2 or (depth - 2) % per_block:
            example = ", ".join(str(per_block * n + 2) for n in (1, 2, 3))
            raise ArgumentError(f"must be {per_block}n + 2 with {block} blocks ({example}, ...), got {depth}", "depth")
        if width < 1:
            raise ArgumentError(f"must be at least 1, got {width}", "width")
        check_norm(scheme, norm)
        self.stem = make_convolution(scheme, inputs.shape[0], 16, 3, padding=1)
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
                    Block(channels, inside, stride, kind=block, norm=norm, activation=activation, scheme=scheme)
                )
                channels = inside * _EXPANSION[block]
            self.groups.append(group)
        self.bias2 = make_scalar_bias(scheme)
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features = self.groups(self.activation(self.bias1(self.norm(self.stem(x)))))
        logits: Tensor = self.classifier(self.bias2(features.mean((2, 3))))
        return logits


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    step = 3 * len(_KERNELS[arguments["block"]])
    return Shallow.of_depth(arguments["depth"], 2 * step + 2, step, _DEEPEST)


@register_architecture("resnet", schemes=STATED, reference=_PAPER, shallow=_shallow)
def resnet(
    depth: int = 20,
    width: int = 1,
    block: BlockKind = "basic",
    norm: Norm = "batch",
    activation: Activation = "relu",
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Residual network for small images, ResNet-20 to ResNet-1202, with shortcuts that have no parameters (option A).

    No convolution has a bias in the standard scheme. With scheme fixup it is the network of Fixup's authors: 268,393
    parameters at depth 20.

    Args:
        depth: 6n + 2 (8, 14, 20, ..., 110) with basic blocks, 9n + 2 with bottlenecks.
        width: multiplies the groups' 16, 32 and 64 channels.
        block: basic (two 3×3 convolutions) or bottleneck (1×1, 3×3, 1×1, with four times as many channels outside).
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm stands beside a scheme.
    """
    return ResNet(
        depth,
        width,
        block=block,
        norm=norm,
        activation=activation,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )
