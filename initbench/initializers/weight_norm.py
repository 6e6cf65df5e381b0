"""Initialization of weight-normalized networks: the directions v and the gains g of w = g·v/‖v‖."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import known_branches, modules_of, stages
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import WeightLayer, sample, weight_layers
from initbench.initializers.orthogonal import orthogonal_weight
from initbench.initializers.parameter_writer import ParameterWriter, own_parameter, weight_normalized
from initbench.initializers.record import Law
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS, is_linear, output_dimension
from initbench.structure.residual import ResidualBranch

Gain = Literal["forward", "backward", "hanin", "pytorch"]


@register_initializer(
    "weight_norm",
    2,
    scheme="weight_norm",
    reference="Arpit, Campos & Bengio, How to Initialize your Network? Robust Initialization for WeightNorm & ResNets, "
    "NeurIPS 2019, section 3",
)
def weight_norm(
    gain: Gain = "forward",
    direction: Literal["orthogonal", "normal"] = "orthogonal",
    embedding_std: float = 0.02,
    stem: float = 1.0,
) -> Apply:
    """Gains g that keep the norm of activations or of gradients from layer to layer; zero biases.

    All outputs of a layer have the same gain: g = √(κ · inputs / outputs) with ``forward``, which keeps the norm of the
    activations, and √κ with ``backward``, which keeps the norm of the gradients; channels are counted, not kernel taps.
    κ is 2 because of the ReLU. In a network with residual branches κ is 1 for the layers outside of them (stem and
    shortcuts), 2 within, and 1/B for the last layer of a branch, where B is the number of branches in its stage (see
    `stages`), so that a stage multiplies the energy of the signal by at most (1 + 1/B)^B < e. ``hanin`` is ``forward``
    with κ = (0.9^b)² instead of 1/B for the b-th branch of a stage, as the authors' code does for the rule of Hanin &
    Rolnick (2018). ``pytorch`` is g = ‖v‖, which `torch.nn.utils.parametrizations.weight_norm` gives a layer that was
    drawn before.

    The paper does not say which of the two its residual networks use; the authors' code uses ``forward``. Layers
    without weight normalization, such as the classifier, are orthogonal with zero biases, and norms are reset.

    Args:
        gain: forward (the default of the authors' code, too), backward, hanin or pytorch.
        direction: v is orthogonal (rows or columns), as the paper proposes, or normal with standard deviation
            1 / √fan_in, as in the authors' code for He's.
        embedding_std: standard deviation of embeddings.
        stem: κ of layers outside the blocks of a residual network: 1 in the authors' wide residual network, 2 in their
            other one, which has the same stem.

    Raises:
        ArgumentError: embedding_std or stem is not a finite number above 0.
    """
    check_positive(embedding_std=embedding_std, stem=stem)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        layers = [module for module in model.modules() if is_weight_normalized(module)]
        if not layers:
            raise InitializationError("weight_norm: the model has no weight-normalized layers")
        branches = known_branches(context)
        squares = _squared_gains(model, branches, gain)
        outside = stem if branches else 2.0
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, embedding_std)
        for module in layers:
            g, v = (module.get_parameter(f"parametrizations.weight.original{i}") for i in (0, 1))
            (layer,) = weight_layers(module)
            writer.draw_itself(v, partial(_direction, layer, direction))
            if gain == "pytorch":
                outputs = v.detach().transpose(0, 1) if layer.transposed else v.detach()
                writer.set_to(g, torch.linalg.vector_norm(outputs.flatten(1), dim=1).view_as(g), "norms")
            else:
                ratio = 1.0 if gain == "backward" else layer.inputs / layer.outputs
                writer.fill(g, math.sqrt(squares.get(id(module), outside) * ratio))
            writer.fill(own_parameter(module, "bias"), 0.0)
        for module in model.modules():
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
            ids = [id(parameter) for parameter in module.parameters(recurse=False)]
            for layer in weight_layers(module):
                if id(layer.weight) not in ids:
                    continue  # weight-normalized: set above, or without a gain per output
                writer.draw(layer.weight, partial(_direction, layer, "orthogonal"))
                writer.fill(layer.bias, 0.0)

    return apply


def is_weight_normalized(module: nn.Module) -> bool:
    """Return whether the module is a linear layer or convolution with one gain per output."""
    if not (is_linear(module) or isinstance(module, _ConvNd)):
        return False
    weight = weight_normalized(module, "weight")
    return weight is not None and weight.dim == output_dimension(module)


def _squared_gains(model: nn.Module, branches: tuple[ResidualBranch, ...], gain: Gain) -> dict[int, float]:
    """Return κ of the layers of residual branches and of their shortcuts, by the layers' ids."""
    squares: dict[int, float] = {}
    for branch in branches:
        squares |= {id(layer): 1.0 for layer in modules_of(model, branch.shortcut)}
    for stage in stages(model, branches):
        for number, branch in enumerate(stage, start=1):
            last = (0.9**number) ** 2 if gain == "hanin" else 1 / len(stage)
            squares |= {id(layer): 2.0 for layer in modules_of(model, branch.inner)}
            squares |= {id(layer): last for layer in modules_of(model, branch.ends)}
    return squares


def _direction(layer: WeightLayer, law: str, generator: torch.Generator) -> tuple[Tensor, Law]:
    if law == "normal":
        return sample(layer, 1 / math.sqrt(layer.fan_in), "normal", generator)
    return orthogonal_weight(layer, generator), {"law": "orthogonal"}
