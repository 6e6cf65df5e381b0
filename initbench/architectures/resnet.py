"""Residual networks for small and for large images (He, Zhang, Ren & Sun, 2016), with the activation after the sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.functional import pad

from initbench.architectures.blocks import Activation, Norm
from initbench.architectures.style import STATED, Style
from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_PAPER = "He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, CVPR 2016"
_DEEPEST = 100_000
BlockKind = Literal["basic", "bottleneck"]
Stem = Literal["imagenet", "cifar"]
# Kernel sizes of a block's convolutions, and the ratio of its output to its inner channels.
_KERNELS: dict[BlockKind, tuple[int, ...]] = {"basic": (3, 3), "bottleneck": (1, 3, 1)}
_EXPANSION: dict[BlockKind, int] = {"basic": 1, "bottleneck": 4}
# Blocks of the four stages, and their kind, by the number of layers: table 1 of the paper.
_STAGES: dict[int, tuple[tuple[int, ...], BlockKind]] = {
    18: ((2, 2, 2, 2), "basic"),
    34: ((3, 4, 6, 3), "basic"),
    50: ((3, 4, 6, 3), "bottleneck"),
    101: ((3, 4, 23, 3), "bottleneck"),
    152: ((3, 8, 36, 3), "bottleneck"),
}


class Layer(nn.Module):
    """One convolution of a branch with its surroundings: scalar bias, convolution, norm, scalar bias, activation.

    The last layer of a branch lacks the second bias and the activation.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel: int, stride: int, style: Style, last: bool) -> None:
        super().__init__()
        self.bias_a = style.make_scalar_bias()
        self.convolution = style.make_convolution(in_channels, out_channels, kernel, stride)
        self.norm = style.make_norm(out_channels)
        self.bias_b = nn.Identity() if last else style.make_scalar_bias()
        self.activation = nn.Identity() if last else style.make_activation()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        return self.activation(self.bias_b(self.norm(self.convolution(self.bias_a(x)))))


def make_branch(in_channels: int, channels: int, stride: int, kind: BlockKind, style: Style) -> nn.Sequential:
    """Return two 3×3 convolutions, or 1×1, 3×3 and 1×1 with a quarter of the channels inside, as `Layer`s.

    Figure 5 of the paper. The first 3×3 convolution has the stride.
    """
    kernels = _KERNELS[kind]
    sizes = [in_channels, *[channels] * (len(kernels) - 1), channels * _EXPANSION[kind]]
    layers = nn.Sequential()
    for index, kernel in enumerate(kernels):
        its_stride = stride if index == kernels.index(3) else 1
        last = index == len(kernels) - 1
        layers.append(Layer(sizes[index], sizes[index + 1], kernel, its_stride, style, last))
    return layers


class Block(nn.Module):
    """A branch, added to its input, or to a shortcut if the shape changes.

    `channels` is the width of the convolutions inside; the first 3×3 convolution and the shortcut have the stride. The
    shortcut has no parameters (option A of the paper: every stride-th pixel, zeros for the added channels) or is a
    projection (option B: a 1×1 convolution and a norm). As in the Fixup authors' code, it takes the input after the
    branch's first scalar bias, and another scalar bias follows the multiplier.
    """

    def __init__(
        self, in_channels: int, channels: int, stride: int, kind: BlockKind, option: Literal["A", "B"], style: Style
    ) -> None:
        super().__init__()
        self.layers = make_branch(in_channels, channels, stride, kind, style)
        self.multiplier = style.make_branch_end()
        self.bias = style.make_scalar_bias()
        out_channels = channels * _EXPANSION[kind]
        self.stride, self.added_channels = stride, out_channels - in_channels
        self.projection: nn.Module | None = None
        if option == "B" and (stride > 1 or self.added_channels):
            self.projection_norm = style.make_norm(out_channels)
            self.projection = style.make_convolution(in_channels, out_channels, 1, stride)
        self.activation = style.make_activation()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        branch: Tensor = self.bias(self.multiplier(self.layers(x)))
        shortcut = x
        if self.stride > 1 or self.added_channels:
            shortcut = self.layers.get_submodule("0.bias_a")(x)
            if self.projection is not None:
                shortcut = self.projection_norm(self.projection(shortcut))
            else:
                shortcut = shortcut[:, :, :: self.stride, :: self.stride]
                shortcut = pad(shortcut, (0, 0, 0, 0, 0, self.added_channels))
        return self.activation(branch + shortcut)


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    step = 3 * len(_KERNELS[arguments["block"]])
    return Shallow.of_depth(arguments["depth"], 2 * step + 2, step, _DEEPEST)


@register_architecture("resnet", schemes=STATED, reference=f"{_PAPER}, section 4.2", shallow=_shallow)
class ResNet(nn.Module):
    """Residual network for small images, ResNet-20 to ResNet-1202, with parameter-free shortcuts (option A).

    In the standard scheme convolutions have no bias unless `conv_bias` is set. With scheme fixup it is the network of
    Fixup's authors: 268,393 parameters at depth 20.

    Args:
        depth: 6n + 2 (8, 14, 20, ..., 110) with basic blocks, 9n + 2 with bottlenecks.
        width: multiplies the groups' 16, 32 and 64 channels.
        block: basic (two 3×3 convolutions) or bottleneck (1×1, 3×3, 1×1, with four times as many channels outside).
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases are combined with a scheme.
    """

    def __init__(
        self,
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
    ) -> None:
        super().__init__()
        per_block = 3 * len(_KERNELS[block])
        if depth > _DEEPEST:
            raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
        if depth < per_block + 2 or (depth - 2) % per_block:
            example = ", ".join(str(per_block * n + 2) for n in (1, 2, 3))
            raise ArgumentError(f"must be {per_block}n + 2 with {block} blocks ({example}, ...), got {depth}", "depth")
        check_counts(width=width)
        style = Style(norm=norm, activation=activation, conv_bias=conv_bias, scheme=scheme)
        self.stem = style.make_convolution(inputs.shape[0], 16, 3)
        self.norm = style.make_norm(16)
        self.bias1 = style.make_scalar_bias()
        self.activation = style.make_activation()
        self.groups = nn.Sequential()
        channels = 16
        for number in range(3):
            inside = 16 * width * 2**number
            group = nn.Sequential()
            for index in range((depth - 2) // per_block):
                stride = 2 if number > 0 and index == 0 else 1
                group.append(Block(channels, inside, stride, block, "A", style))
                channels = inside * _EXPANSION[block]
            self.groups.append(group)
        self.bias2 = style.make_scalar_bias()
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features = self.groups(self.activation(self.bias1(self.norm(self.stem(x)))))
        return self.classifier(self.bias2(features.mean((2, 3))))


@register_architecture("imagenet_resnet", schemes=STATED, reference=f"{_PAPER}, table 1")
class ImageNetResNet(nn.Module):
    """Residual network for large images, ResNet-18 to ResNet-152, with projections where the shape changes (option B).

    With batch norm it is torchvision's network: a block that halves the image does so in its 3×3 convolution. With
    scheme fixup it is the Fixup authors' network for ImageNet, with scalar biases around convolutions and no norm: the
    network without normalization of Dauphin & Schoenholz (MetaInit, 2019, table 2).

    Args:
        depth: 18 or 34, with blocks of two 3×3 convolutions, or 50, 101 or 152, with bottlenecks (1×1, 3×3, 1×1).
        width: channels of the stem and of the first stage's convolutions, 64 in the paper; a multiple of 16 for norm
            group.
        stem: imagenet for a 7×7 convolution of stride 2 and max pooling, or cifar for a 3×3 convolution of stride 1,
            which keeps the size of small images.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm or biases are combined with a scheme.
    """

    def __init__(
        self,
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
    ) -> None:
        super().__init__()
        if depth not in _STAGES:
            raise ArgumentError(f"must be 18, 34, 50, 101 or 152, got {depth}", "depth")
        check_counts(width=width)
        style = Style(norm=norm, activation=activation, conv_bias=conv_bias, scheme=scheme)
        kernel, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.stem = style.make_convolution(inputs.shape[0], width, kernel, stride)
        self.norm = style.make_norm(width, "width")
        self.bias1 = style.make_scalar_bias()
        self.activation = style.make_activation()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "imagenet" else nn.Identity()
        self.stages = nn.Sequential()
        blocks_of_stages, kind = _STAGES[depth]
        channels = width
        for number, blocks in enumerate(blocks_of_stages):
            inside = width * 2**number
            stage = nn.Sequential()
            for index in range(blocks):
                stage.append(Block(channels, inside, 2 if number > 0 and index == 0 else 1, kind, "B", style))
                channels = inside * _EXPANSION[kind]
            self.stages.append(stage)
        self.bias2 = style.make_scalar_bias()
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features = self.stages(self.pool(self.activation(self.bias1(self.norm(self.stem(x))))))
        return self.classifier(self.bias2(features.mean((2, 3))))
