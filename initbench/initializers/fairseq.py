"""The initializations of fairseq's Transformers: since version 0.10, and before."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Literal

from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.distribution import WeightLayer, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings, normal, normal_embedding, uniform
from initbench.registry import register_initializer
from initbench.structure.find import Structure
from initbench.structure.kinds import NORM_LAYERS

Role = Literal["projection", "fused projections", "output", "head", "feed-forward"]


@register_initializer(
    "fairseq",
    reference="Ott et al., fairseq: A Fast, Extensible Toolkit for Sequence Modeling, 2019; its version 0.10, "
    "multihead_attention.py, transformer_layer.py and transformer.py",
)
def fairseq() -> Apply:
    """The defaults of fairseq's Transformers since version 0.10, with feed-forward layers as PyTorch draws them.

    In a Transformer of width d, with U(b) uniform between −b and b:

    - queries, keys and values: weights U(√(6/4d)), Xavier's law of one matrix for all three and 1/√2 of its law for
      each; biases U(1/√d);
    - outputs of attentions: weights U(√(6/2d)), Xavier's law; biases 0;
    - feed-forward layers: weights and biases U(1/√fan_in);
    - embeddings, also learned positions: N(0, 1/d), with 0 in the padding row; heads: N(0, 1/d), with biases of 0;
    - norms: weight 1, bias 0.

    fairseq multiplies embeddings by √d afterwards, as `transformer` does, but `gpt` does not. The layers of attentions
    and heads are found by running the model once; all other linear layers count as feed-forward layers. Everything else
    stays as built. For non-square projections, 2d is fan_in + fan_out.
    """
    return partial(_apply, xavier=False)


@register_initializer(
    "fairseq_0_9",
    reference="Ott et al., fairseq: A Fast, Extensible Toolkit for Sequence Modeling, 2019; its version 0.9, "
    "multihead_attention.py and transformer.py",
)
def fairseq_0_9() -> Apply:
    """The defaults of fairseq's Transformers up to version 0.9, with feed-forward layers by Xavier's law.

    As `fairseq`, but the weights of feed-forward layers are uniform with bound √(6 / (fan_in + fan_out)), and their
    biases are 0. Admin (Liu et al., 2020) and T-Fixup (Huang et al., 2020) start from these.
    """
    return partial(_apply, xavier=True)


def _apply(model: nn.Module, context: InitializationContext, *, xavier: bool) -> None:
    roles = _roles(model, context)
    writer = ParameterWriter(model, context)
    for weight, padding in embeddings(model):
        writer.draw(weight, partial(normal_embedding, weight, 1 / math.sqrt(weight.shape[1]), padding))
    for module in model.modules():
        for layer in weight_layers(module):
            _draw(writer, layer, roles.get(id(layer.weight), "feed-forward"), xavier=xavier)
        if isinstance(module, NORM_LAYERS):
            writer.reset_norm(module)


def _draw(writer: ParameterWriter, layer: WeightLayer, role: Role, *, xavier: bool) -> None:
    weight, bias = layer.weight, layer.bias
    by_fan_in = 1 / math.sqrt(layer.fan_in)
    # `nn.MultiheadAttention` has three blocks.
    outputs = layer.outputs // 3 if role == "fused projections" and layer.blocks == 1 else layer.outputs
    bound = math.sqrt(6 / (layer.inputs + outputs))
    if role == "head":
        writer.draw(weight, partial(normal, weight, by_fan_in))
    elif role in {"projection", "fused projections"}:
        writer.draw(weight, partial(uniform, weight, bound / math.sqrt(2)))
    else:
        writer.draw(weight, partial(uniform, weight, bound if xavier or role == "output" else by_fan_in))
    if bias is None:
        return
    if role in {"head", "output"} or (role == "feed-forward" and xavier):
        writer.fill(bias, 0.0)
    else:
        writer.draw(bias, partial(uniform, bias, by_fan_in))


def _roles(model: nn.Module, context: InitializationContext) -> dict[int, Role]:
    """Return the roles of weights by id, except those of feed-forward layers; refuse other networks."""
    structure, name = context.structure, context.record.initializer
    _check_is_transformer(model, structure, name)
    weights = {layer.name: model.get_parameter(layer.weight) for layer in structure.layers}
    roles: dict[int, Role] = {}

    def note(layers: Iterable[str], role: Role) -> None:
        for layer in layers:
            roles.setdefault(id(weights[layer]), role)

    note(structure.heads, "head")
    for attention in structure.attention:
        projections = [*attention.query, *attention.key, *attention.value]
        if attention.fused:
            few, many = sorted(weights[projections[0]].shape)
            if many != 3 * few:
                raise InitializationError(f"{name}: {projections[0]} has queries, keys and values of unknown sizes")
        elif len(set(projections)) < len(projections):
            where = attention.module or type(model).__name__
            raise InitializationError(f"{name}: one layer of {where} computes two of queries, keys and values")
        note(projections, "fused projections" if attention.fused else "projection")
        note(attention.output, "output")
    return roles


def _check_is_transformer(model: nn.Module, structure: Structure, name: str) -> None:
    for what in ("layers", "attention"):
        if what in structure.unknown:
            raise InitializationError(f"{name}: the {what} cannot be determined: {structure.unknown[what]}")
    if not structure.attention:
        raise InitializationError(f"{name} is for Transformers, and {type(model).__name__} has no attention")
    for layer in structure.layers:
        if layer.kind not in {"linear", "attention", "embedding"}:
            raise InitializationError(f"{name} has no law for {layer.name}, a layer of kind {layer.kind}")
