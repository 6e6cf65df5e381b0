"""Normal laws of Transformers whose deviation depends on what a weight does: the defaults of language models.

Drawn are the weights of linear layers, convolutions and attention, embeddings (padding rows are 0), and parameters that
are added to the stream as position embeddings (`Structure.positions`). Biases are 0; norm layers get weight 1 and bias
0. Everything else, such as class tokens and LayerScale gates, stays as built and is recorded as untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.initializers.branches import TransformerBlocks
from initbench.initializers.context import InitializationContext
from initbench.initializers.distribution import WeightLayer, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings, normal
from initbench.initializers.record import Law
from initbench.initializers.truncated_normal import cut_normal, kept_deviation
from initbench.structure.kinds import NORM_LAYERS

Role = Literal["embedding", "positions", "head", "residual", "up", "other"]
"""What a weight does.

``embedding`` looks up a vector for each token, or for each position; ``positions`` are a parameter that is added;
``head`` gives the output, and may be tied to an embedding; ``residual`` ends an attention or a feed-forward part;
``up`` is the up projection of a gated feed-forward part.
"""


@dataclass(frozen=True)
class Weight:
    """A weight, as the law of its deviation sees it.

    Attributes:
        role: what it does.
        fan_in: inputs per output; of embeddings and positions, the features.
        width: features of the stream that it reads, or that it adds to.
        block: the number of its block, from 1, for the roles ``residual`` and ``up``; 0 for others.
    """

    role: Role
    fan_in: int
    width: int
    block: int = 0


@dataclass(frozen=True)
class Normal:
    """N(0, std²), cut off at ±cut·std; the entries of a cut law have a smaller deviation than `std`.

    Attributes:
        std: standard deviation before the cut; 0 for entries of 0.
        cut: in deviations; None for no cut.
    """

    std: float
    cut: float | None = None


def draw_normals(
    model: nn.Module, context: InitializationContext, blocks: TransformerBlocks, law: Callable[[Weight], Normal]
) -> None:
    """Draw each weight from its law, and record the number of blocks and the weights that end their branches."""
    roles, writer = _Roles(model, context, blocks), ParameterWriter(model, context)

    def draw(parameter: nn.Parameter, weight: Weight, part: str | None = None, padding: int | None = None) -> None:
        chosen = law(weight)
        if chosen.std == 0:
            writer.fill(parameter, 0.0)
        else:
            writer.draw(parameter, partial(_draw, parameter, chosen, part, padding))

    # Positions come first, because their parameter may be that of an embedding which looks up nothing.
    for parameter in map(model.get_parameter, context.structure.positions):
        draw(parameter, Weight("positions", parameter.shape[-1], parameter.shape[-1]), "embedding")
    for parameter, padding in embeddings(model):
        draw(parameter, roles.of_embedding(parameter), "embedding", padding)
    for module in model.modules():
        for layer in weight_layers(module):
            weight = roles.of_layer(layer)
            draw(layer.weight, weight, "residual projection" if weight.role == "residual" else None)
            writer.fill(layer.bias, 0.0)
        if isinstance(module, NORM_LAYERS):
            writer.reset_norm(module)
    names = [f"{layer}.weight" for layer in blocks.projections]
    context.record.conditions |= {"blocks": blocks.number, "residual_projections": names}


class _Roles:
    def __init__(self, model: nn.Module, context: InitializationContext, blocks: TransformerBlocks) -> None:
        modules, name = dict(model.named_modules()), context.record.initializer

        def weights(layer: str) -> list[int]:
            """Return the weights of a layer; some layers are named after a bare weight, and are no modules."""
            return [id(part.weight) for part in weight_layers(modules[layer])] if layer in modules else []

        for layer in blocks.projections:
            if len(weights(layer)) != 1:
                raise InitializationError(
                    f"{name}: {layer} ends a residual branch, but {name} does not draw its weight"
                )
        self._ends = {weights(layer)[0]: block for layer, block in blocks.projections.items()}
        self._up = {weight: block for layer, block in blocks.up.items() for weight in weights(layer)}
        self._heads = {weight for layer in context.structure.heads for weight in weights(layer)}

    def of_embedding(self, parameter: nn.Parameter) -> Weight:
        width = parameter.shape[-1]
        return Weight("head" if id(parameter) in self._heads else "embedding", width, width)

    def of_layer(self, layer: WeightLayer) -> Weight:
        key = id(layer.weight)
        if key in self._ends:
            return Weight("residual", layer.fan_in, layer.outputs, self._ends[key])
        if key in self._up:
            return Weight("up", layer.fan_in, layer.fan_in, self._up[key])
        return Weight("head" if key in self._heads else "other", layer.fan_in, layer.fan_in)


def _draw(
    parameter: nn.Parameter, chosen: Normal, part: str | None, padding: int | None, generator: torch.Generator
) -> tuple[Tensor, Law]:
    if chosen.cut is None:
        values, law = normal(parameter, chosen.std, generator)
    else:
        values, law = cut_normal(parameter, chosen.std * kept_deviation(chosen.cut), chosen.cut, generator)
    if part is not None:
        law["part"] = part
    if padding is not None:
        values[padding] = 0.0
        law["padding_row"] = padding
    return values, law
