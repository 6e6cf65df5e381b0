"""Wide residual networks (Zagoruyko & Komodakis, 2016) and the same networks without skips (`plain`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from initbench.architectures.blocks import (
    Activation,
    Norm,
    check_rate,
    make_activation,
    make_drop_path,
    make_dropout,
    make_norm,
)
from initbench.architectures.scalars import ScalarMultiplier
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

_PAPER = "Zagoruyko & Komodakis, Wide Residual Networks, BMVC 2016 (arXiv 1605.07146)"


# Ten times the deepest networks in the literature on initialization: a slip of the keyboard must not build for ever.
_DEEPEST = 100_000


class Block(nn.Module):
    """Two 3×3 convolutions, each after norm and activation: B(3,3) of the paper, section 2.

    Without normalization a scalar multiplier ends the branch (Dauphin & Schoenholz, 2019, section 4); a scheme puts its
    own parts there, and before each activation and convolution. Where the number of channels changes, a 1×1 convolution
    of the normalized and activated input takes the skip's place, as in the paper's code.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        stride: of the first convolution and of the projection.
        residual: whether there is a skip.
        norm: normalization before each activation.
        activation: the activation's name.
        dropout: rate of the dropout between the convolutions.
        drop_path: rate at which the branch is dropped; 0 where there is no skip.
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
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        self.norm1 = make_norm(norm, in_channels, 2)
        self.bias1a = make_scalar_bias(scheme)
        self.activation1 = make_activation(activation)
        self.bias1b = make_scalar_bias(scheme)
        self.conv1 = make_convolution(scheme, in_channels, out_channels, 3, stride=stride, padding=1)
        self.norm2 = make_norm(norm, out_channels, 2)
        self.bias2a = make_scalar_bias(scheme)
        self.activation2 = make_activation(activation)
        self.dropout = make_dropout(dropout)
        self.bias2b = make_scalar_bias(scheme)
        self.conv2 = make_convolution(scheme, out_channels, out_channels, 3, padding=1)
        alone = scheme == STANDARD and norm == "none"
        self.multiplier = ScalarMultiplier() if alone else make_branch_end(scheme)
        self.drop_path = make_drop_path(drop_path)
        self.residual = residual
        self.projection: nn.Module | None = None
        if residual and in_channels != out_channels:
            self.projection = make_convolution(scheme, in_channels, out_channels, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        activated = self.bias1b(self.activation1(self.bias1a(self.norm1(x))))
        hidden = self.activation2(self.bias2a(self.norm2(self.conv1(activated))))
        branch: Tensor = self.drop_path(self.multiplier(self.conv2(self.bias2b(self.dropout(hidden)))))
        if not self.residual:
            return branch
        shortcut: Tensor = x if self.projection is None else self.projection(activated)
        return shortcut + branch


class WideResNet(nn.Module):
    """A 3×3 convolution, three groups of blocks, norm, activation, global average pooling and a linear classifier.

    Args:
        depth: 6n + 4, with n blocks in each group.
        width: the groups have 16, 32 and 64 times as many channels.
        residual: whether the blocks have skips.
        norm: normalization before each activation.
        activation: the activation's name.
        dropout: rate of the dropout within the blocks.
        drop_path: rate at which the last block's branch is dropped; block l of L has l / L of it.
        scheme: see `initbench.architectures.under_scheme`.
        inputs: images.
        outputs: number of classes.

    Raises:
        ArgumentError: depth, width, dropout or drop_path is impossible, or a norm stands beside a scheme.
    """

    def __init__(
        self,
        depth: int,
        width: int,
        *,
        residual: bool,
        norm: Norm,
        activation: Activation,
        dropout: float,
        drop_path: float = 0.0,
        scheme: str = STANDARD,
        inputs: Inputs,
        outputs: int,
    ) -> None:
        super().__init__()
        if depth > _DEEPEST:
            raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
        if depth < 10 or (depth - 4) % 6:
            raise ArgumentError(f"must be 6n + 4 (10, 16, 22, 28, ...), got {depth}", "depth")
        if width < 1:
            raise ArgumentError(f"must be at least 1, got {width}", "width")
        check_rate("drop_path", drop_path)
        check_norm(scheme, norm)
        blocks_per_group = (depth - 4) // 6
        self.stem = make_convolution(scheme, inputs.shape[0], 16, 3, padding=1)
        self.groups = nn.Sequential()
        channels = 16
        for number, (out_channels, stride) in enumerate(((16 * width, 1), (32 * width, 2), (64 * width, 2))):
            group = nn.Sequential()
            for index in range(blocks_per_group):
                position = (number * blocks_per_group + index + 1) / (3 * blocks_per_group)
                block = Block(
                    channels,
                    out_channels,
                    stride if index == 0 else 1,
                    residual=residual,
                    norm=norm,
                    activation=activation,
                    dropout=dropout,
                    drop_path=position * drop_path,
                    scheme=scheme,
                )
                group.append(block)
                channels = out_channels
            self.groups.append(group)
        self.norm = make_norm(norm, channels, 2)
        self.bias1 = make_scalar_bias(scheme)
        self.activation = make_activation(activation)
        self.bias2 = make_scalar_bias(scheme)
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features: Tensor = self.activation(self.bias1(self.norm(self.groups(self.stem(x)))))
        logits: Tensor = self.classifier(self.bias2(features.mean((2, 3))))
        return logits


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    return Shallow.of_depth(arguments["depth"], 16, 6, _DEEPEST)


@register_architecture("wrn", schemes=STATED, reference=_PAPER, shallow=_shallow)
def wrn(
    depth: int = 28,
    width: int = 10,
    norm: Norm = "batch",
    activation: Activation = "relu",
    dropout: float = 0.0,
    drop_path: float = 0.0,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Wide residual network with pre-activation blocks, WRN-depth-width.

    In the standard scheme no convolution has a bias, and where there is no normalization, a scalar multiplier ends each
    block's branch.

    `drop_path` is stochastic depth (Huang et al., ECCV 2016) per sample: in training block l of L drops its branch at
    the rate l / L · drop_path, their equation (4) with p_L = 1 - drop_path. So the first block has drop_path / L; timm
    gives its first block 0.

    Args:
        depth: 6n + 4 (10, 16, 22, 28, ...); n blocks in each of the three groups.
        width: multiplies the groups' 16, 32 and 64 channels.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout between a block's two convolutions.
        drop_path: rate at which the last block's branch is dropped in training.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth, width, dropout or drop_path is impossible, or a norm stands beside a scheme.
    """
    return WideResNet(
        depth,
        width,
        residual=True,
        norm=norm,
        activation=activation,
        dropout=dropout,
        drop_path=drop_path,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )


@register_architecture(
    "plain",
    reference=f"{_PAPER}, without skips as in Dauphin & Schoenholz, NeurIPS 2019, section 4",
    shallow=_shallow,
)
def plain(
    depth: int = 28,
    width: int = 10,
    norm: Norm = "batch",
    activation: Activation = "relu",
    dropout: float = 0.0,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """The wide residual network without its skips, and so without projections and `drop_path`.

    Args:
        depth: 6n + 4 (10, 16, 22, 28, ...); n blocks in each of the three groups.
        width: multiplies the groups' 16, 32 and 64 channels.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout between a block's two convolutions.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any that needs no residual branches; weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth, width or dropout is impossible, or a norm stands beside a scheme.
    """
    return WideResNet(
        depth,
        width,
        residual=False,
        norm=norm,
        activation=activation,
        dropout=dropout,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )
