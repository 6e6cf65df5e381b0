"""T-Fixup: Transformers without normalization or warm-up, from smaller weights and embeddings."""

from __future__ import annotations

import math
from functools import partial

from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.branches import transformer_stacks
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import sample, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings, normal_embedding, uniform
from initbench.initializers.transformer_gains import gains_by_role, xavier_by_role
from initbench.registry import register_initializer
from initbench.structure.stacks import Stack, require_no_norm

_ENCODER = 0.67
_QUERIES = math.sqrt(0.5)  # fairseq's, the law of one matrix for queries, keys and values


@register_initializer(
    "tfixup",
    example={"name": "transformer", "norm": "none"},
    reference="Huang et al., Improving Transformer Optimization Through Better Initialization, ICML 2020, section 3.2",
)
def tfixup() -> Apply:
    """Xavier's uniform law times 0.67·N^(-1/4) in the encoder and (9M)^(-1/4) in the decoder of N and M layers.

    This law is for the values and outputs of attentions and for feed-forward parts. Queries and keys have Xavier's law
    divided by √2, because the authors' code extends `fairseq_0_9` (their paper says Xavier). The biases of queries,
    keys and values have the bound 1/√fan_in, and all other biases are 0. Embeddings are drawn from N(0, 1/features),
    times (9N)^(-1/4) in the encoder and (9M)^(-1/4) in the decoder; a shared one has the encoder's factor. A head that
    is not tied is drawn from N(0, 1/fan_in).

    The network must be an encoder and a decoder without normalization. The paper has no rule for a single stack. The
    authors train with Adam at lr·√(4000 / (4000 + t)) from the first step on: ``schedule: inverse_square_root`` with
    ``shift_steps: 4000``.
    """

    def apply(model: nn.Module, context: InitializationContext) -> None:
        stacks = _pair(context)
        values = factors(stacks)
        gains = gains_by_role(context, stacks, values, queries=_QUERIES)
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        layers = {layer.name: layer.weight for layer in context.structure.layers}
        heads = {layers[name] for name in context.structure.heads}
        inputs = {
            layers[name]
            for attention in context.structure.attention
            for name in (*attention.query, *attention.key, *attention.value)
        }
        writer = ParameterWriter(model, context)
        scales = embedding_factors(stacks)
        for number, (weight, padding) in enumerate(dict(embeddings(model)).items()):
            std = scales[min(number, 1)] * weight.shape[1] ** -0.5
            writer.draw(weight, partial(normal_embedding, weight, std, padding))
        for module in model.modules():
            for layer in weight_layers(module):
                name = names[id(layer.weight)]
                if name in heads:
                    writer.draw(layer.weight, partial(sample, layer, layer.fan_in**-0.5, "normal"))
                else:
                    gain = gains.get(name, 1.0)
                    writer.draw(layer.weight, partial(xavier_by_role, layer, gain, _QUERIES, "uniform"))
                if name in inputs and layer.bias is not None:
                    writer.draw(layer.bias, partial(uniform, layer.bias, layer.fan_in**-0.5))
                else:
                    writer.fill(layer.bias, 0.0)
        context.record.conditions |= {
            stack.kind: {"layers": stack.layers, "factor": factor, "embedding_factor": scale}
            for stack, factor, scale in zip(stacks, values, scales, strict=True)
        }

    return apply


def factors(stacks: tuple[Stack, ...]) -> list[float]:
    """Return the factors of the weights in the encoder and in the decoder (section 3.2, steps 3 and 4)."""
    n, m = (stack.layers for stack in stacks)
    return [_ENCODER * n**-0.25, (9 * m) ** -0.25]


def embedding_factors(stacks: tuple[Stack, ...]) -> list[float]:
    return [(9 * stack.layers) ** -0.25 for stack in stacks]


def _pair(context: InitializationContext) -> tuple[Stack, ...]:
    stacks = transformer_stacks(context)
    if len(stacks) == 1:
        raise InitializationError("tfixup: needs an encoder and a decoder; there is one stack of layers")
    try:
        require_no_norm(context.structure)
    except InitializationError as error:
        raise InitializationError(f"tfixup: {error}") from error
    return stacks
