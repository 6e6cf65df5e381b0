"""Wide residual networks (Zagoruyko & Komodakis, 2016) and the same networks without skips (`plain`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, check_rate, make_activation, make_norm
from initbench.architectures.under_scheme import (
    STATED,
    check_conv_bias,
    check_norm,
    make_convolution,
    make_scalar_bias,
)
from initbench.architectures.wrn_block import Block, ProjectionOf, StrideIn
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAPER = "Zagoruyko & Komodakis, Wide Residual Networks, BMVC 2016 (arXiv 1605.07146)"


# Ten times the deepest networks in the literature on initialization: a slip of the keyboard must not build for ever.
_DEEPEST = 100_000
NormPlacement = Literal["branch", "final", "branch_and_merge"]


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
        norm_placement: ``branch`` for a norm before each activation; ``final`` for the last of these alone, and no
            multipliers in the others' places; ``branch_and_merge`` for one more behind each addition.
        sum_factor: by which each sum of skip and branch is multiplied.
        branch_factor: by which each branch is multiplied before it is added.
        multiplier: whether a scalar multiplier ends each branch where there is no norm.
        projection_of: what the projections take.
        stride_in: which convolution of a block has the stride.
        conv_bias: whether convolutions have biases.
        scheme: see `initbench.architectures.under_scheme`.
        inputs: images.
        outputs: number of classes.

    Raises:
        ArgumentError: depth, width, dropout, drop_path or a factor is impossible, a norm or biases stand beside a
            scheme, or norm_placement, sum_factor or multiplier means nothing with the norm.
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
        norm_placement: NormPlacement = "branch",
        sum_factor: float = 1.0,
        branch_factor: float = 1.0,
        multiplier: bool = True,
        projection_of: ProjectionOf = "activated",
        stride_in: StrideIn = "first",
        conv_bias: bool = False,
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
        check_conv_bias(scheme, conv_bias)
        _check_merging(norm, norm_placement, sum_factor, branch_factor, multiplier)
        blocks_per_group = (depth - 4) // 6
        self.stem = make_convolution(scheme, inputs.shape[0], 16, 3, conv_bias=conv_bias, padding=1)
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
                    norm="none" if norm_placement == "final" else norm,
                    activation=activation,
                    dropout=dropout,
                    drop_path=position * drop_path,
                    multiplier=multiplier and norm_placement != "final",
                    merge_norm=norm if norm_placement == "branch_and_merge" else "none",
                    sum_factor=sum_factor,
                    branch_factor=branch_factor,
                    projection_of=projection_of,
                    stride_in=stride_in,
                    conv_bias=conv_bias,
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


def _check_merging(
    norm: Norm, norm_placement: NormPlacement, sum_factor: float, branch_factor: float, multiplier: bool
) -> None:
    """Raise an ArgumentError where what is asked of the blocks' sums is impossible, or would do nothing."""
    for name, factor in (("sum_factor", sum_factor), ("branch_factor", branch_factor)):
        if factor <= 0:
            raise ArgumentError(f"must be above 0, got {factor}", name)
    if norm == "none" and norm_placement != "branch":
        raise ArgumentError(f"must be branch for norm none, got {norm_placement}", "norm_placement")
    if norm_placement == "branch_and_merge" and sum_factor != 1:
        raise ArgumentError(
            f"must be 1 for norm_placement branch_and_merge, whose norm undoes it, got {sum_factor}", "sum_factor"
        )
    if norm != "none" and not multiplier:
        raise ArgumentError(f"must be true for norm {norm}: only branches without a norm have one", "multiplier")


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

    In the standard scheme no convolution has a bias, unless `conv_bias` asks for it, and where there is no
    normalization, a scalar multiplier ends each block's branch, unless `multiplier` is false.

    `norm_placement`, `sum_factor` and `branch_factor` are variants by which De & Smith (NeurIPS 2020, response to the
    reviewers) show why normalized networks train at a depth of 1000: a norm before the classifier alone (`final`), sums
    of skip and normalized branch multiplied by α ≤ √½ (`sum_factor`), and a further norm behind each sum
    (`branch_and_merge`).

    With ``projection_of: input``, ``stride_in: second`` and `conv_bias` it is the network of GradInit's authors; that
    without BatchNorm has ``multiplier: false`` too.

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
        norm_placement: branch for a norm before each activation, final for the last of these alone (and no
            multipliers), or branch_and_merge for one more behind each sum of skip and branch.
        sum_factor: multiplies each sum of skip and branch; with norm none and multiplier false, √½ is the "divide by
            √2" of De & Smith.
        branch_factor: multiplies each branch before it is added.
        multiplier: whether a learnable scalar ends each branch where norm is none.
        projection_of: activated for projections of the normalized and activated input, input for those of the input.
        stride_in: first or second: which convolution of a block that halves the image has the stride.
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth, width, dropout, drop_path or a factor is impossible, a norm or biases stand beside a
            scheme, or norm_placement, sum_factor or multiplier means nothing with the norm.
    """
    return WideResNet(
        depth,
        width,
        residual=True,
        norm=norm,
        activation=activation,
        dropout=dropout,
        drop_path=drop_path,
        norm_placement=norm_placement,
        sum_factor=sum_factor,
        branch_factor=branch_factor,
        multiplier=multiplier,
        projection_of=projection_of,
        stride_in=stride_in,
        conv_bias=conv_bias,
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
    conv_bias: bool = False,
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
        conv_bias: whether convolutions have biases.
        inputs: images of any height and width.
        outputs: number of classes.
        scheme: any that needs no residual branches; weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth, width or dropout is impossible, or a norm or biases stand beside a scheme.
    """
    return WideResNet(
        depth,
        width,
        residual=False,
        norm=norm,
        activation=activation,
        dropout=dropout,
        conv_bias=conv_bias,
        scheme=scheme,
        inputs=inputs,
        outputs=outputs,
    )
