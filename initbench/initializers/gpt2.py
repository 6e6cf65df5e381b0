"""GPT-2's initialization of transformers: residual projections scaled by depth."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.errors import InitializationError
from initbench.initializers.branches import transformer_blocks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, normal, normal_embedding
from initbench.initializers.record import Law
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS


@register_initializer(
    "gpt2",
    2,
    reference="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019, section 2.3; "
    "Shoeybi et al., Megatron-LM, 2019, section 4.2",
)
def gpt2(std: float = 0.02, residual: Literal["scaled", "unscaled", "zero"] = "scaled") -> Apply:
    """Entries ~ N(0, std²), divided by √(2N) in the last weights of the residual branches of N transformer blocks.

    A block adds twice to its input: so divided, what N blocks add does not grow with N. Drawn are the weights of linear
    layers, convolutions and attention, embeddings (a padding row is 0), and parameters that are added to the stream as
    embeddings of positions (`Structure.positions`). Biases are 0, norm layers 1 and 0. All else, such as class tokens
    and the gates of LayerScale, stays as the model was built and is untouched in the record. This is what Megatron-LM
    and Hugging Face's GPT-2 do; OpenAI's own code scales nothing, and has 0.01 for positions.

    Blocks are found by what one run of the model shows, see `transformer_blocks`, and the record has N and the weights
    that were taken for residual projections. A pooling by attention with a feed-forward part is a block. A feed-forward
    part without an attention, such as in a block of convolutions, is refused: the rule does not say how it counts.

    The projection of a cross-attention is one more in its block and does not change N, as in Megatron-LM. A block that
    the model runs several times counts once, and the stacks of an encoder and a decoder count together.

    Args:
        std: standard deviation of the entries; 0.02 is GPT-2's.
        residual: ``scaled`` as above; ``unscaled`` draws the residual projections as all other weights, as OpenAI's own
            code does; ``zero`` sets them to 0, so that every branch adds nothing.

    Raises:
        ArgumentError: std is not a finite number above 0.
    """
    check_positive("std", std)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        blocks = transformer_blocks(model, context)
        projections = _weights(model, blocks.projections)
        projection_std = std / math.sqrt(2 * blocks.number) if residual == "scaled" else std
        writer = ParameterWriter(model, context)
        writer.draw_embeddings(model, std)
        for positions in map(model.get_parameter, context.structure.positions):
            writer.draw(positions, partial(normal_embedding, positions, std, None))
        for module in model.modules():
            for layer in weight_layers(module):
                if id(layer.weight) not in projections:
                    writer.draw(layer.weight, partial(normal, layer.weight, std))
                elif residual == "zero":
                    writer.fill(layer.weight, 0.0)
                else:
                    writer.draw(layer.weight, partial(_normal_projection, layer.weight, projection_std))
                writer.fill(layer.bias, 0.0)
            if isinstance(module, NORM_LAYERS):
                writer.reset_norm(module)
        names = [f"{layer}.weight" for layer in blocks.projections]
        context.record.conditions |= {"blocks": blocks.number, "residual_projections": names}

    return apply


def _normal_projection(parameter: nn.Parameter, std: float, generator: torch.Generator) -> tuple[Tensor, Law]:
    values, law = normal(parameter, std, generator)
    return values, law | {"part": "residual projection"}


def _weights(model: nn.Module, layers: list[str]) -> set[int]:
    modules = dict(model.named_modules())
    found = set()
    for layer in layers:
        weights = [weight.weight for weight in weight_layers(modules[layer])] if layer in modules else []
        if len(weights) != 1:
            raise InitializationError(f"gpt2: {layer} ends a residual branch, and its weight is none of those drawn")
        found.add(id(weights[0]))
    return found
