"""Fixup: residual networks without normalization, scaled by depth."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import refuse_locked_branches, required_branches, required_gates, weights_of
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import WeightLayer, sample, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings
from initbench.initializers.record import Law
from initbench.registry import register_initializer
from initbench.structure.find import Structure
from initbench.structure.kinds import NORM_LAYERS


@register_initializer(
    "fixup", scheme="fixup", reference="Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, section 3.2"
)
def fixup(
    mode: Literal["fan_in", "fan_out"] = "fan_out",
    nonzero: bool = False,
    scalar_learning_rate: float = 0.1,
    embedding_std: float = 0.02,
) -> Apply:
    """Kaiming's law, times L^(-1/(2m-2)) within residual branches; 0 for the last layer of each and the classifier.

    L is the number of residual branches and m the number of consecutive layers in the branch. Scalar multipliers start
    at 1, scalar and other biases at 0. These are rules 1 to 3 of the paper. Every layer that produces an output is a
    classifier; a classifier that shares its weight with an embedding is refused. `initbench.rewrite(model, "fixup")`
    adds multipliers and biases to any residual network; gates with more than one number, such as LayerScale's, are set
    to 1. A model with a last layer that would stay 0 whatever the training is refused, as where an activation whose
    slope at 0 is 0 follows it.

    Where the paper and the authors' code differ, the weights follow the paper: the code keeps PyTorch's default in the
    first convolution. The learning rate of biases and multipliers follows the code: a tenth of the weights' rate.

    Args:
        mode: Kaiming's fan; the authors' code uses fan_out, that is output channels × kernel taps.
        nonzero: draw the otherwise zero layers by Kaiming's law: a start for methods that scale weights, such as
            metainit, whose paper (Dauphin & Schoenholz, 2019, Figure 3) uses a Fixup without zeros but does not specify
            it.
        scalar_learning_rate: learning rate of biases and multipliers, as a fraction of the weights' rate.
        embedding_std: standard deviation of embeddings.

    Raises:
        ArgumentError: scalar_learning_rate or embedding_std is not a finite number above 0.
    """
    check_positive(scalar_learning_rate=scalar_learning_rate, embedding_std=embedding_std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        branches = required_branches(context)
        required_gates(model, branches, "fixup")
        factors = _factors(model, context.structure, nonzero)
        gates = [model.get_parameter(gate) for branch in branches for gate in branch.gates]
        scalar_biases = {id(model.get_parameter(name)) for name in context.structure.scalar_biases}
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, embedding_std)
        for module in model.modules():
            for layer in weight_layers(module):
                factor = factors.get(id(layer.weight), 1.0)
                if factor == 0:
                    writer.fill(layer.weight, 0.0)
                else:
                    writer.draw(layer.weight, partial(_draw, layer, mode, factor))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
            for parameter in module.parameters(recurse=False):
                if id(parameter) in scalar_biases:
                    writer.fill(parameter, 0.0)
        for gate in gates:
            writer.fill(gate, 1.0)
        slow = scalar_biases | {id(gate) for gate in gates}
        # The authors' rule also takes in_proj_bias of attentions, and tables of position biases.
        context.record.learning_rate_multipliers |= {
            name: scalar_learning_rate
            for name, parameter in model.named_parameters()
            if "bias" in name.rpartition(".")[2] or id(parameter) in slow
        }
        refuse_locked_branches(model, context)

    return apply


def _factors(model: nn.Module, structure: Structure, nonzero: bool) -> dict[int, float]:
    """Return the factors of Kaiming's law for the weights of branches and heads, by the weights' ids."""
    if "heads" in structure.unknown:
        raise InitializationError(f"fixup: the classifier cannot be determined: {structure.unknown['heads']}")
    embedded = {id(weight) for weight, _ in embeddings(model)}
    for head in structure.heads if not nonzero else ():
        if any(id(weight) in embedded for weight in weights_of(model, structure, [head])):
            raise InitializationError(
                f"fixup: {head}, which would be 0, shares its weight with an embedding; untie the two"
            )
    branches = structure.branches
    factors: dict[int, float] = {}
    for branch in branches:
        for weight in weights_of(model, structure, branch.inner):
            factors[id(weight)] = len(branches) ** (-1 / (2 * branch.depth - 2))
    last = 1.0 if nonzero else 0.0
    ends = [end for branch in branches for end in branch.ends]
    return factors | {id(weight): last for weight in weights_of(model, structure, [*ends, *structure.heads])}


def _draw(
    layer: WeightLayer, mode: Literal["fan_in", "fan_out"], factor: float, generator: torch.Generator
) -> tuple[Tensor, Law]:
    fan = layer.fan_in if mode == "fan_in" else layer.fan_out
    values, law = sample(layer, factor * math.sqrt(2 / fan), "normal", generator)
    return values, law | {"kaiming_factor": factor}
