"""A residual multilayer perceptron."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from initbench.architectures.blocks import Activation, Norm, make_activation, make_norm
from initbench.architectures.style import BranchEnd, check_norm
from initbench.errors import ArgumentError
from initbench.inputs import Inputs
from initbench.registry import STANDARD, Shallow, register_architecture

_DEEPEST = 100_000


class Block(nn.Module):
    """x + W₂ σ(N(W₁ x)), with biases where no normalization N, which brings its own, follows."""

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


def _shallow(arguments: Mapping[str, Any]) -> Shallow | None:
    return Shallow.of_depth(arguments["depth"], 2, 1, _DEEPEST)


@register_architecture(
    "residual_mlp",
    reference="Arpit, Campos & Bengio, How to Initialize your Network? Robust Initialization for WeightNorm & ResNets, "
    "NeurIPS 2019, section 3.2, whose residual blocks have two layers",
    shallow=_shallow,
)
class ResidualMLP(nn.Module):
    """A linear layer on the flattened input, blocks x + W₂ σ(W₁ x), and a classifier.

    Nothing stands between two blocks, so that the signal on the skips is a sum, to which laws of residual networks
    apply as they are written: with scheme weight_norm and its initializer the energy grows by (1 + 1/depth)^depth < e.

    Args:
        depth: number of blocks.
        width: features of all layers but the classifier; a multiple of 16 for norm group.
        norm: none, batch or group, before each activation.
        activation: relu, swish, beta_swish, tanh or linear.
        bias: whether linear layers have biases.
        inputs: images.
        outputs: number of classes.
        scheme: any; fixup, skipinit, weight_norm and others in the place of a norm with norm none.

    Raises:
        ArgumentError: depth or width is impossible, or a norm stands beside a scheme.
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
        if width < 1:
            raise ArgumentError(f"must be at least 1, got {width}", "width")
        self.stem = nn.Linear(math.prod(inputs.shape), width, bias=bias)
        self.blocks = nn.Sequential(*(Block(width, norm, activation, bias) for _ in range(depth)))
        self.classifier = nn.Linear(width, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images (N, C, H, W) to logits (N, outputs)."""
        logits: Tensor = self.classifier(self.blocks(self.stem(x.flatten(1))))
        return logits
