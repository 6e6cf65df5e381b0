"""Residual networks for large images (He, Zhang, Ren & Sun, 2016, table 1), with the activation after the addition."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.resnet_blocks import EXPANSION, BlockKind, make_branch
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
from initbench.registry import STANDARD, register_architecture

Stem = Literal["imagenet", "cifar"]
# Blocks of the four stages, and their kind, by the number of layers: table 1 of the paper.
_STAGES: dict[int, tuple[tuple[int, ...], BlockKind]] = {
    18: ((2, 2, 2, 2), "basic"),
    34: ((3, 4, 6, 3), "basic"),
    50: ((3, 4, 6, 3), "bottleneck"),
    101: ((3, 4, 23, 3), "bottleneck"),
    152: ((3, 8, 36, 3), "bottleneck"),
}


class Block(nn.Module):
    """A branch of two or three convolutions, added to its input, or to a projection of it where the shape changes.

    The projection is a 1×1 convolution and a norm (option B of the paper). As in the authors' code of Fixup it takes
    the input after the branch's first scalar bias, and another scalar bias follows the multiplier.

    Args:
        in_channels: channels of the input.
        channels: of the convolutions inside.
        stride: of the first 3×3 convolution and of the projection.
        kind: ``basic`` or ``bottleneck``.
        norm: after each convolution.
        activation: after each convolution but the last, and after the addition.
        conv_bias: whether convolutions have biases.
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
        conv_bias: bool,
        scheme: str,
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
        self.projection: nn.Module | None = None
        self.projection_norm: nn.Module = nn.Identity()
        out_channels = channels * EXPANSION[kind]
        if stride > 1 or in_channels != out_channels:
            self.projection = make_convolution(scheme, in_channels, out_channels, 1, conv_bias=conv_bias, stride=stride)
            self.projection_norm = make_norm(norm, out_channels, 2)
        self.activation = make_activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        branch: Tensor = self.bias(self.multiplier(self.layers(x)))
        shortcut = x
        if self.projection is not None:
            shortcut = self.projection_norm(self.projection(self.layers.get_submodule("0.bias_a")(x)))
        result: Tensor = self.activation(branch + shortcut)
        return result


class ImageNetResNet(nn.Module):
    """A stem, four stages of blocks, global average pooling and a linear classifier.

    Args:
        depth: 18, 34, 50, 101 or 152.
        width: channels of the stem and of the first stage's convolutions; each stage has twice those of the one before.
        stem: ``imagenet`` for a 7×7 convolution of stride 2 and max pooling, ``cifar`` for a 3×3 convolution.
        norm: after each convolution.
        activation: the activation's name.
        conv_bias: whether convolutions have biases.
        scheme: see `initbench.architectures.under_scheme`.
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
        stem: Stem,
        norm: Norm,
        activation: Activation,
        conv_bias: bool,
        scheme: str,
        inputs: Inputs,
        outputs: int,
    ) -> None:
        super().__init__()
        if depth not in _STAGES:
            raise ArgumentError(f"must be 18, 34, 50, 101 or 152, got {depth}", "depth")
        if width < 1:
            raise ArgumentError(f"must be at least 1, got {width}", "width")
        check_norm(scheme, norm)
        check_conv_bias(scheme, conv_bias)
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.stem = make_convolution(
            scheme, inputs.shape[0], width, kernel, conv_bias=conv_bias, stride=stride, padding=kernel // 2
        )
        self.norm = make_norm(norm, width, 2, "width")
        self.bias1 = make_scalar_bias(scheme)
        self.activation = make_activation(activation)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "imagenet" else nn.Identity()
        self.stages = nn.Sequential()
        blocks_of_stages, kind = _STAGES[depth]
        channels = width
        for number, blocks in enumerate(blocks_of_stages):
            inside = width * 2**number
            stage = nn.Sequential()
            for index in range(blocks):
                stage.append(
                    Block(
                        channels,
                        inside,
                        2 if number > 0 and index == 0 else 1,
                        kind=kind,
                        norm=norm,
                        activation=activation,
                        conv_bias=conv_bias,
                        scheme=scheme,
                    )
                )
                channels = inside * EXPANSION[kind]
            self.stages.append(stage)
        self.bias2 = make_scalar_bias(scheme)
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features = self.stages(self.pool(self.activation(self.bias1(self.norm(self.stem(x))))))
        logits: Tensor = self.classifier(self.bias2(features.mean((2, 3))))
        return logits


@register_architecture(
    "imagenet_resnet",
    schemes=STATED,
    reference="He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, CVPR 2016, table 1",
)
def imagenet_resnet(
    depth: int = 50,
    width: int = 64,
    stem: Stem = "imagenet",
    norm: Norm = "batch",
    activation: Activation = "relu",
    conv_bias: bool = False,
    *,
    inputs: Inputs = Inputs((3, 224, 224)),
    outputs: int = 1000,
    scheme: str = STANDARD,
) -> nn.Module:
    """Residual network for large images, ResNet-18 to ResNet-152, with projections where the shape changes (option B).

    With batch norm it is torchvision's: a block that halves the image does so in its 3×3 convolution. With scheme fixup
    it is that of Fixup's authors for ImageNet, scalar biases around convolutions and no norm: the network without
    normalization of Dauphin & Schoenholz (MetaInit, 2019, table 2).

    Args:
        depth: 18 or 34, of blocks of two 3×3 convolutions, or 50, 101 or 152, of bottlenecks (1×1, 3×3, 1×1).
        width: channels of the stem and of the first stage's convolutions, 64 in the paper; a multiple of 16 for norm
            group.
        stem: imagenet for a 7×7 convolution of stride 2 and max pooling, or cifar for a 3×3 convolution of stride 1,
            which leaves small images their size.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases stand beside a scheme.
    """
    return ImageNetResNet(
        depth,
        width,
        stem=stem,
        norm=norm,
        activation=activation,
        conv_bias=conv_bias,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )
