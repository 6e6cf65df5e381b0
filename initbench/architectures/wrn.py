"""Wide residual networks (Zagoruyko & Komodakis, 2016) and the same networks without skips (`plain`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, check_rate, make_drop_path, make_dropout
from initbench.architectures.scalars import ScalarMultiplier
from initbench.architectures.style import STATED, Style
from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_PAPER = "Zagoruyko & Komodakis, Wide Residual Networks, BMVC 2016 (arXiv 1605.07146)"
# Ten times the deepest networks in the literature on initialization, so that a typo does not build for ever.
_DEEPEST = 100_000
NormPlacement = Literal["branch", "final", "branch_and_merge"]
ProjectionOf = Literal["activated", "input"]
StrideIn = Literal["first", "second"]


@dataclass(frozen=True, kw_only=True)
class WideStyle(Style):
    """The common style of all blocks: the arguments of `wrn` by their names, and whether there are skips."""

    dropout: float = 0.0
    residual: bool = True
    norm_placement: NormPlacement = "branch"
    sum_factor: float = 1.0
    branch_factor: float = 1.0
    multiplier: bool = True
    projection_of: ProjectionOf = "activated"
    stride_in: StrideIn = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, factor in (("sum_factor", self.sum_factor), ("branch_factor", self.branch_factor)):
            if factor <= 0:
                raise ArgumentError(f"must be above 0, got {factor}", name)
        if self.norm == "none" and self.norm_placement != "branch":
            raise ArgumentError(f"must be branch for norm none, got {self.norm_placement}", "norm_placement")
        if self.norm_placement == "branch_and_merge" and self.sum_factor != 1:
            problem = f"must be 1 for norm_placement branch_and_merge, whose norm undoes it, got {self.sum_factor}"
            raise ArgumentError(problem, "sum_factor")
        if self.norm != "none" and not self.multiplier:
            problem = f"must be true for norm {self.norm}: only branches without a norm have one"
            raise ArgumentError(problem, "multiplier")


class Block(nn.Module):
    """Two 3×3 convolutions, each after norm and activation: B(3,3) of the paper, section 2.

    Without normalization a scalar multiplier ends the branch (Dauphin & Schoenholz, 2019, section 4); a scheme puts its
    own parts there, and before each activation and convolution. If the number of channels changes, a 1×1 convolution of
    the normalized and activated input replaces the skip, as in the paper's code. One of the two convolutions, and the
    projection, have the stride. The branch is dropped at the rate `drop_path`, 0 without a skip.

    With x the skip and f the branch, the block returns N(s · (x + b · f)). N is the identity and s = b = 1, except in
    the variants of De & Smith (NeurIPS 2020) from their response to the reviewers.
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, style: WideStyle, drop_path: float = 0.0
    ) -> None:
        super().__init__()
        self.style = style
        self.norm1 = style.make_norm(in_channels)
        self.bias1a = style.make_scalar_bias()
        self.activation1 = style.make_activation()
        self.bias1b = style.make_scalar_bias()
        strides = (stride, 1) if style.stride_in == "first" else (1, stride)
        self.conv1 = style.make_convolution(in_channels, out_channels, 3, strides[0])
        self.norm2 = style.make_norm(out_channels)
        self.bias2a = style.make_scalar_bias()
        self.activation2 = style.make_activation()
        self.dropout = make_dropout(style.dropout)
        self.bias2b = style.make_scalar_bias()
        self.conv2 = style.make_convolution(out_channels, out_channels, 3, strides[1])
        alone = style.scheme == STANDARD and style.norm == "none" and style.multiplier
        self.multiplier = ScalarMultiplier() if alone else style.make_branch_end()
        self.drop_path = make_drop_path(drop_path)
        self.projection: nn.Module | None = None
        if style.residual and in_channels != out_channels:
            self.projection = style.make_convolution(in_channels, out_channels, 1, stride)
        merges = style.norm_placement == "branch_and_merge"
        self.merge_norm = style.make_norm(out_channels) if merges else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, in_channels, H, W) to (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        style = self.style
        activated = self.bias1b(self.activation1(self.bias1a(self.norm1(x))))
        hidden = self.activation2(self.bias2a(self.norm2(self.conv1(activated))))
        branch: Tensor = self.drop_path(self.multiplier(self.conv2(self.bias2b(self.dropout(hidden)))))
        if not style.residual:
            return branch
        shortcut = x
        if self.projection is not None:
            shortcut = self.projection(activated if style.projection_of == "activated" else x)
        if style.branch_factor != 1:
            branch = style.branch_factor * branch
        merged = shortcut + branch
        if style.sum_factor != 1:
            merged = style.sum_factor * merged
        return self.merge_norm(merged)


class WideResNet(nn.Module):
    """A 3×3 convolution, three groups of blocks, norm, activation, global average pooling and a linear classifier.

    The arguments are those of `wrn`.
    """

    def __init__(
        self, depth: int, width: int, style: WideStyle, *, drop_path: float = 0.0, inputs: Inputs, outputs: int
    ) -> None:
        super().__init__()
        of_blocks = style
        if style.norm_placement == "final":
            of_blocks = replace(style, norm="none", norm_placement="branch", multiplier=False)
        blocks_per_group = (depth - 4) // 6
        self.stem = style.make_convolution(inputs.shape[0], 16, 3)
        self.groups = nn.Sequential()
        channels = 16
        for number, (out_channels, stride) in enumerate(((16 * width, 1), (32 * width, 2), (64 * width, 2))):
            group = nn.Sequential()
            for index in range(blocks_per_group):
                position = (number * blocks_per_group + index + 1) / (3 * blocks_per_group)
                group.append(
                    Block(channels, out_channels, stride if index == 0 else 1, of_blocks, position * drop_path)
                )
                channels = out_channels
            self.groups.append(group)
        self.norm = style.make_norm(channels)
        self.bias1 = style.make_scalar_bias()
        self.activation = style.make_activation()
        self.bias2 = style.make_scalar_bias()
        self.classifier = nn.Linear(channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        features: Tensor = self.activation(self.bias1(self.norm(self.groups(self.stem(x)))))
        return self.classifier(self.bias2(features.mean((2, 3))))


def _check_size(depth: int, width: int) -> None:
    if depth > _DEEPEST:
        raise ArgumentError(f"must be at most {_DEEPEST}, got {depth}", "depth")
    if depth < 10 or (depth - 4) % 6:
        raise ArgumentError(f"must be 6n + 4 (10, 16, 22, 28, ...), got {depth}", "depth")
    check_counts(width=width)


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
    norm_placement: NormPlacement = "branch",
    sum_factor: float = 1.0,
    branch_factor: float = 1.0,
    multiplier: bool = True,
    projection_of: ProjectionOf = "activated",
    stride_in: StrideIn = "first",
    conv_bias: bool = False,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Wide residual network with pre-activation blocks, WRN-depth-width.

    In the standard scheme convolutions have no bias unless `conv_bias` is set, and without normalization a scalar
    multiplier ends each block's branch unless `multiplier` is false.

    `norm_placement`, `sum_factor` and `branch_factor` give the variants with which De & Smith (NeurIPS 2020, response
    to the reviewers) show why normalized networks train at a depth of 1000: a norm only before the classifier
    (`final`), sums of skip and normalized branch multiplied by α ≤ √½ (`sum_factor`), and a further norm after each sum
    (`branch_and_merge`).

    With ``projection_of: input``, ``stride_in: second`` and `conv_bias` it is the network of GradInit's authors; their
    network without BatchNorm also has ``multiplier: false``.

    `drop_path` is stochastic depth (Huang et al., ECCV 2016) per sample: in training, block l of L drops its branch at
    the rate l / L · drop_path, their equation (4) with p_L = 1 - drop_path. So the first block has drop_path / L,
    unlike timm's first block, which has 0.

    Args:
        depth: 6n + 4 (10, 16, 22, 28, ...); n blocks in each of the three groups.
        width: multiplies the groups' 16, 32 and 64 channels.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout between a block's two convolutions.
        drop_path: rate at which the last block's branch is dropped in training.
        norm_placement: branch for a norm before each activation, final for only the last of these (and no multipliers),
            or branch_and_merge for an additional norm after each sum of skip and branch.
        sum_factor: multiplies each sum of skip and branch; with norm none and multiplier false, √½ is the "divide by
            √2" of De & Smith.
        branch_factor: multiplies each branch before it is added.
        multiplier: whether a learnable scalar ends each branch if norm is none.
        projection_of: activated to project the normalized and activated input, input to project the input itself.
        stride_in: first or second: which convolution of a block that halves the image has the stride.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none.

    Raises:
        ArgumentError: depth, width, dropout, drop_path or a factor is impossible, a norm or biases are combined with a
            scheme, or norm_placement, sum_factor or multiplier has no meaning with the norm.
    """
    _check_size(depth, width)
    check_rate("drop_path", drop_path)
    style = WideStyle(
        norm=norm,
        activation=activation,
        conv_bias=conv_bias,
        scheme=scheme,
        dropout=dropout,
        norm_placement=norm_placement,
        sum_factor=sum_factor,
        branch_factor=branch_factor,
        multiplier=multiplier,
        projection_of=projection_of,
        stride_in=stride_in,
    )
    return WideResNet(depth, width, style, drop_path=drop_path, inputs=inputs, outputs=outputs)


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
    conv_bias: bool = False,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """The wide residual network without its skips, and therefore without projections and `drop_path`.

    Args:
        depth: 6n + 4 (10, 16, 22, 28, ...); n blocks in each of the three groups.
        width: multiplies the groups' 16, 32 and 64 channels.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout between a block's two convolutions.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any that needs no residual branches; schemes that replace norms, such as weight_norm, need norm none.

    Raises:
        ArgumentError: depth, width or dropout is impossible, or a norm or biases are combined with a scheme.
    """
    _check_size(depth, width)
    style = WideStyle(
        norm=norm, activation=activation, conv_bias=conv_bias, scheme=scheme, dropout=dropout, residual=False
    )
    return WideResNet(depth, width, style, inputs=inputs, outputs=outputs)
