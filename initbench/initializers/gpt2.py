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

    Each block adds to its input twice, so with this factor the sum over N blocks does not grow with N. Drawn are the
    weights of linear layers, convolutions and attention, embeddings (padding rows are 0), and parameters that are added
    to the stream as position embeddings (`Structure.positions`). Biases are 0; norm layers get weight 1 and bias 0.
    Everything else, such as class tokens and LayerScale gates, stays as built and is recorded as untouched. Megatron-LM
    and Hugging Face's GPT-2 do the same; OpenAI's code scales nothing and draws positions with 0.01.

    Blocks are found by running the model once, see `transformer_blocks`; the record contains N and the weights that
    were taken for residual projections. Attention pooling with a feed-forward part is a block. A feed-forward part
    without attention, for example in a block of convolutions, is refused because the rule does not cover it. The
    projection of a cross-attention belongs to its block and leaves N unchanged, as in Megatron-LM. A block that runs
    several times counts once, and the stacks of an encoder and a decoder count together.

    Args:
        std: standard deviation of the entries; 0.02 as in GPT-2.
        residual: ``scaled`` as above; ``unscaled`` draws the residual projections like all other weights, as OpenAI's
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
            raise InitializationError(f"gpt2: {layer} ends a residual branch, but gpt2 does not draw its weight")
        found.add(id(weights[0]))
    return found
