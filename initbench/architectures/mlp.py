"""Multilayer perceptrons, plain and residual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_dropout, make_norm
from initbench.architectures.style import BranchEnd, check_norm
from initbench.arguments import check_counts
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_DEFAULTS = {"depth": 3, "width": 256}
_DEEPEST = 100_000


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    # Beyond three layers each further layer is like the previous one, a hidden layer between two of the same width.
    return None if arguments["widths"] else Shallow.of_depth(arguments["depth"], 3, 1, _DEEPEST)


@register_architecture("mlp", shallow=_shallow)
def mlp(
    depth: int = 3,
    width: int = 256,
    norm: Norm = "none",
    activation: Activation = "relu",
    dropout: float = 0.0,
    widths: tuple[int, ...] = (),
    bias: bool = True,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Linear layers on the flattened input, each but the last followed by norm, activation and dropout.

    Hidden layers have a bias unless a normalization, which has its own, follows.

    Args:
        depth: number of linear layers, including the classifier.
        width: features of the hidden layers; a multiple of 16 for norm group.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout after each activation.
        widths: features of each hidden layer, instead of depth and width; to sweep over several, give a list of lists.
        bias: whether linear layers, including the classifier, have biases.
        inputs: images.
        outputs: number of classes.
        scheme: any that needs no residual branches; schemes that replace norms, such as weight_norm, need norm none.

    Raises:
        ArgumentError: depth, width, widths or dropout is impossible, widths are combined with depth or width, or a norm
            is combined with a scheme.
    """
    check_norm(scheme, norm)
    if not 1 <= depth <= _DEEPEST:
        raise ArgumentError(f"must be at least 1 and at most {_DEEPEST}, got {depth}", "depth")
    check_counts(width=width)
    if any(one < 1 for one in widths):
        raise ArgumentError(f"must each be at least 1, got {', '.join(map(str, widths))}", "widths")
    for name, value in (("depth", depth), ("width", width)):
        if widths and value != _DEFAULTS[name]:
            raise ArgumentError(f"must be left out if widths is given, got {value}", name)
    hidden, argument = (widths, "widths") if widths else ((width,) * (depth - 1), "width")
    model = nn.Sequential(nn.Flatten())
    features = math.prod(inputs.shape)
    for index, size in enumerate(hidden, start=1):
        # Named, not numbered by position: adding a norm must not change the names by which other layers are drawn.
        model.add_module(f"linear{index}", nn.Linear(features, size, bias=bias and norm == "none"))
        model.add_module(f"norm{index}", make_norm(norm, size, 1, argument))
        model.add_module(f"activation{index}", make_activation(activation))
        model.add_module(f"dropout{index}", make_dropout(dropout))
        features = size
    model.add_module("classifier", nn.Linear(features, outputs, bias=bias))
    return model


class Block(nn.Module):
    """x + W₂ σ(N(W₁ x)), with biases except before a normalization N, which has its own."""

    def __init__(self, width: int, norm: Norm, activation: Activation, bias: bool) -> None:
        super().__init__()
        self.linear1 = nn.Linear(width, width, bias=bias and norm == "none")
        self.norm = make_norm(norm, width, 1, "width")
        self.activation = make_activation(activation)
        self.linear2 = nn.Linear(width, width, bias=bias)
        self.end = BranchEnd()

    def forward(self, x: Tensor) -> Tensor:
        branch: Tensor = self.end(self.linear2(self.activation(self.norm(self.linear1(x)))))
        return x + branch


@register_architecture(
    "residual_mlp",
    reference="Arpit, Campos & Bengio, How to Initialize your Network? Robust Initialization for WeightNorm & ResNets, "
    "NeurIPS 2019, section 3.2, whose residual blocks have two layers",
    shallow=lambda arguments: Shallow.of_depth(arguments["depth"], 2, 1, _DEEPEST),
)
class ResidualMLP(nn.Module):
    """A linear layer on the flattened input, blocks x + W₂ σ(W₁ x), and a classifier.

    There is nothing between two blocks, so the signal on the skip path is a plain sum, and laws of residual networks
    apply as written: with scheme weight_norm and its initializer the energy grows by (1 + 1/depth)^depth < e.

    Args:
        depth: number of blocks.
        width: features of all layers except the classifier; a multiple of 16 for norm group.
        norm: none, batch or group, before each activation.
        activation: relu, swish, beta_swish, tanh or linear.
        bias: whether linear layers have biases.
        inputs: images.
        outputs: number of classes.
        scheme: any; schemes that replace norms, such as fixup, skipinit and weight_norm, need norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm is combined with a scheme.
    """

    def __init__(
        self,
        depth: int = 10,
        width: int = 64,
        norm: Norm = "none",
        activation: Activation = "relu",
        bias: bool = True,
        *,
        inputs: Inputs = Inputs((3, 32, 32)),
        outputs: int = 10,
        scheme: str = STANDARD,
    ) -> None:
        super().__init__()
        check_norm(scheme, norm)
        if not 1 <= depth <= _DEEPEST:
            raise ArgumentError(f"must be at least 1 and at most {_DEEPEST}, got {depth}", "depth")
        check_counts(width=width)
        self.stem = nn.Linear(math.prod(inputs.shape), width, bias=bias)
        self.blocks = nn.Sequential(*(Block(width, norm, activation, bias) for _ in range(depth)))
        self.classifier = nn.Linear(width, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        return self.classifier(self.blocks(self.stem(x.flatten(1))))
