"""A multilayer perceptron."""

from __future__ import annotations

import math

from torch import nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_dropout, make_norm
from initbench.architectures.under_scheme import check_norm
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, register_architecture


@register_architecture("mlp")
def mlp(
    depth: int = 3,
    width: int = 256,
    norm: Norm = "none",
    activation: Activation = "relu",
    dropout: float = 0.0,
    *,
    inputs: Inputs = Inputs((3, 32, 32)),
    outputs: int = 10,
    scheme: str = STANDARD,
) -> nn.Module:
    """Linear layers on the flattened input, each but the last followed by norm, activation and dropout.

    Hidden layers have a bias where no normalization, which brings its own, follows.

    Args:
        depth: number of linear layers, the classifier included.
        width: features of the hidden layers; a multiple of 16 for norm group.
        norm: none, batch or group.
        activation: relu, swish, beta_swish, tanh or linear.
        dropout: rate of the dropout after each activation.
        inputs: images.
        outputs: number of classes.
        scheme: any that needs no residual branches; weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth, width or dropout is impossible, or a norm stands beside a scheme.
    """
    check_norm(scheme, norm)
    if depth < 1:
        raise ArgumentError(f"must be at least 1, got {depth}", "depth")
    if width < 1:
        raise ArgumentError(f"must be at least 1, got {width}", "width")
    model = nn.Sequential(nn.Flatten())
    features = math.prod(inputs.shape)
    for index in range(1, depth):
        # Names, not positions: a norm that is added must not shift the names by which other layers are drawn.
        model.add_module(f"linear{index}", nn.Linear(features, width, bias=norm == "none"))
        model.add_module(f"norm{index}", make_norm(norm, width, 1, "width"))
        model.add_module(f"activation{index}", make_activation(activation))
        model.add_module(f"dropout{index}", make_dropout(dropout))
        features = width
    model.add_module("classifier", nn.Linear(features, outputs))
    return model
