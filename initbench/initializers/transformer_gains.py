"""Xavier's law with a gain for each role in a Transformer, as DeepNorm and T-Fixup need it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext
from initbench.initializers.distribution import Family, WeightLayer, sample
from initbench.initializers.record import Law
from initbench.structure.stacks import Stack

_ROLES = 3  # queries, keys and values in the one weight of an nn.MultiheadAttention


def gains_by_role(
    context: InitializationContext, stacks: Sequence[Stack], values: Sequence[float], queries: float
) -> dict[str, float]:
    """Return the gain of each weight in the residual branches, by the name of the parameter.

    Queries and keys have the gain `queries`, the values, outputs and feed-forward parts of a stack its one of `values`.
    """
    structure = context.structure
    gains = {
        name: value
        for stack, value in zip(stacks, values, strict=True)
        for branch in stack.branches
        for name in branch.parameters
    }
    layers = {layer.name: layer for layer in structure.layers}
    for attention in structure.attention:
        for name in {*attention.query, *attention.key}:
            layer = layers[name]
            if name not in attention.value:
                gains[layer.weight] = queries
            elif layer.kind != "attention":
                raise InitializationError(
                    f"{context.record.initializer}: {name} computes values together with queries or keys"
                )
    return gains


def xavier_by_role(
    layer: WeightLayer, gain: float, queries: float, family: Family, generator: torch.Generator
) -> tuple[Tensor, Law]:
    """Return entries of standard deviation gain·√(2/(fan_in + fan_out)) for a weight, and their law.

    A weight for queries, keys and values together has the gain `queries` for the first two.
    """
    std = math.sqrt(2 / (layer.fan_in + layer.fan_out))
    if layer.blocks != _ROLES:
        return sample(layer, gain * std, family, generator)
    values, law = sample(layer, queries * std, family, generator)
    values[-layer.outputs :] *= gain / queries
    return values, law | {"std_of_values": gain * std}
