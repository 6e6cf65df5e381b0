"""Densely connected networks for small images (Huang, Liu, van der Maaten & Weinberger, 2017)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from initbench.architectures.blocks import CHANNELS_PER_GROUP, Activation, Norm
from initbench.architectures.style import Style
from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, register_architecture

_BLOCKS = 3
_BOTTLENECK = 4  # channels of a bottleneck over the growth: section 3, "Bottleneck layers"
# Each layer takes the results of all previous layers, so the size grows with the square of the depth.
_DEEPEST = 1_000


class Unit(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel: int, style: Style) -> None:
        super().__init__()
        self.norm = style.make_norm(in_channels)
        self.activation = style.make_activation()
        self.convolution = style.make_convolution(in_channels, out_channels, kernel)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, H, W)."""
        return self.convolution(self.activation(self.norm(x)))


class DenseLayer(nn.Module):
    """A 3×3 convolution to `growth` channels, after a 1×1 one if there is a bottleneck, stacked on its input.

    Source: Huang et al., 2017, equation 2.
    """

    def __init__(self, in_channels: int, growth: int, bottleneck: bool, style: Style) -> None:
        super().__init__()
        inner = _BOTTLENECK * growth
        sizes = [(in_channels, inner, 1), (inner, growth, 3)] if bottleneck else [(in_channels, growth, 3)]
        self.units = nn.Sequential(*(Unit(*size, style) for size in sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, in_channels + growth, H, W)."""
        return torch.cat([x, self.units(x)], 1)


def _check(depth: int, growth: int, compression: float, per_block: int, *, bottleneck: bool, norm: Norm) -> None:
    """Raise an ArgumentError if the sizes are impossible; `per_block` is 0 if the depth is."""
    if depth > _DEEPEST:
        raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
    if per_block < 1:
        step, kind = _BLOCKS * (1 + bottleneck), "with" if bottleneck else "without"
        example = ", ".join(str(step * n + 4) for n in (1, 2, 3))
        raise ArgumentError(f"must be {step}n + 4 {kind} bottleneck ({example}, ...), got {depth}", "depth")
    check_counts(growth=growth)
    if norm == "group" and growth % CHANNELS_PER_GROUP:
        raise ArgumentError(f"must be a multiple of {CHANNELS_PER_GROUP} for norm group, got {growth}", "growth")
    if not 0 < compression <= 1:
        raise ArgumentError(f"must be above 0 and at most 1, got {compression}", "compression")


def _compressed(channels: int, compression: float, norm: Norm) -> int:
    left = int(channels * compression)
    if not left:
        raise ArgumentError(f"must leave a channel of {channels}, got {compression}", "compression")
    if norm == "group" and left % CHANNELS_PER_GROUP:
        raise ArgumentError(
            f"must leave a multiple of {CHANNELS_PER_GROUP} channels for norm group, leaves {left} of {channels}",
            "compression",
        )
    return left


@register_architecture(
    "densenet",
    reference="Huang, Liu, van der Maaten & Weinberger, Densely Connected Convolutional Networks, CVPR 2017, section 3",
)
class DenseNet(nn.Module):
    """DenseNet for small images, by default DenseNet-BC-100 with a growth of 12: 769,162 parameters for 10 classes.

    Within a block each layer takes the stacked results of all previous layers. For the paper's network of depth 40 use
    ``bottleneck: false`` and ``compression: 1``. Without normalization and with `conv_bias` the default is the network
    without BatchNorm of GradInit's authors: 748,336 parameters. Halving an odd side rounds up.

    Args:
        depth: 6n + 4 (10, 16, 22, ..., 100) with bottleneck, otherwise 3n + 4 (7, 10, ..., 40); n layers in each block.
        growth: channels that each layer adds; a multiple of 16 for norm group.
        bottleneck: whether a 1×1 convolution to four times the growth precedes each 3×3 convolution.
        compression: factor by which each of the two transitions multiplies the channels, rounded down.
        norm: none, batch or group, before each activation.
        activation: relu, swish, beta_swish, tanh or linear.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any that needs no residual branches; schemes that replace norms, such as weight_norm, need norm none.

    Raises:
        ArgumentError: depth, growth or compression is impossible, or a norm or biases are combined with a scheme.
    """

    def __init__(
        self,
        depth: int = 100,
        growth: int = 12,
        bottleneck: bool = True,
        compression: float = 0.5,
        norm: Norm = "batch",
        activation: Activation = "relu",
        conv_bias: bool = False,
        *,
        inputs: Inputs = Inputs((3, 32, 32)),
        outputs: int = 10,
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        per_block, rest = divmod(depth - 4, _BLOCKS * (1 + bottleneck))
        _check(depth, growth, compression, 0 if rest else per_block, bottleneck=bottleneck, norm=norm)
        style = Style(norm=norm, activation=activation, conv_bias=conv_bias, scheme=scheme)
        channels = 2 * growth if bottleneck else 16
        self.stem = style.make_convolution(inputs.shape[0], channels, 3)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        for block in range(_BLOCKS):
            layers = [DenseLayer(channels + i * growth, growth, bottleneck, style) for i in range(per_block)]
            self.blocks.append(nn.Sequential(*layers))
            channels += per_block * growth
            if block < _BLOCKS - 1:
                left = _compressed(channels, compression, norm)
                self.transitions.append(Unit(channels, left, 1, style))
                channels = left
        # Rounded up, so that at least one pixel of any image is left.
        self.pool = nn.AvgPool2d(2, ceil_mode=True)
        self.norm = style.make_norm(channels)
        self.activation = style.make_activation()
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        first, *others = self.blocks
        x = first(self.stem(x))
        for transition, block in zip(self.transitions, others, strict=True):
            x = block(self.pool(transition(x)))
        return self.classifier(self.activation(self.norm(x)).mean((2, 3)))
