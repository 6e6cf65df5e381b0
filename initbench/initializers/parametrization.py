"""Parametrizations: what each parameter does as a network grows, and factors folded into weights and rates.

A layer y = c·W·x trained with rate η is the layer y = W'·x with W' = c·W, trained with the rate c·η by Adam (whose ε
becomes ε/c) or c²·η by SGD: the outputs are equal at every step. Decoupled weight decay λ becomes λ/c; added to the
gradient, it becomes λ/c². So a method that multiplies within the forward pass needs no change of the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor, nn

from initbench.arguments import check_positive
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import InitializationContext
from initbench.initializers.distribution import WeightLayer, sample, weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, embeddings, normal_embedding
from initbench.structure.kinds import NORM_LAYERS
from initbench.structure.layer import Layer

Role = Literal["input", "hidden", "output", "vector", "fixed"]
"""Which sizes of a parameter grow with the width.

Of an ``input`` weight the outputs (embeddings, positions, first layers, depthwise convolutions), of a ``hidden`` one
both sizes, of an ``output`` weight the inputs (heads); a ``vector``, such as a bias or a norm's gain, grows; ``fixed``
are the biases of heads, and single numbers.
"""


Heads = Literal["more", "wider"]
"""What grows with the width in an attention: the number of heads, or their size."""


@dataclass(frozen=True)
class Factors:
    """The factors of one parameter relative to the base network.

    Attributes:
        multiplier: c, by which the forward pass multiplies the weight.
        learning_rate: of the rate.
        weight_decay: of the weight decay.
        epsilon: of Adam's ε.
    """

    multiplier: float = 1.0
    learning_rate: float = 1.0
    weight_decay: float = 1.0
    epsilon: float = 1.0

    def folded(self, optimizer: str) -> Factors:
        """Return the factors of a parameter c·W that stands for the parameter W and its multiplier c."""
        c = self.multiplier
        if optimizer == "sgd":
            return Factors(c, c**2 * self.learning_rate, self.weight_decay / c**2, self.epsilon)
        decay = c**2 if optimizer == "adam" else c  # Adam's is added to the gradient
        return Factors(c, c * self.learning_rate, self.weight_decay / decay, self.epsilon / c)


@dataclass(frozen=True)
class Scale:
    """The standard deviations at the base width, from arguments with these names.

    Raises:
        ArgumentError: one is not a finite number above 0, or `gain` is combined with `std`.
    """

    std: float | None
    gain: float
    embedding_std: float

    def __post_init__(self) -> None:
        check_positive(std=self.std, gain=self.gain, embedding_std=self.embedding_std)
        if self.std is not None and self.gain != 1:
            raise ArgumentError(f"is for std null, which is {self.std:g}; leave it out", "gain")

    def of(self, layer: WeightLayer, role: Role, ratio: int) -> float:
        """Return the standard deviation before the layer's multiplier: var(hidden) ∝ 1/width, the others constant."""
        fan_in = layer.fan_in if role == "input" else layer.fan_in / ratio
        base = self.gain / math.sqrt(fan_in) if self.std is None else self.std
        return base / math.sqrt(ratio) if role == "hidden" else base


@dataclass(frozen=True)
class Network:
    """A network seen relative to its base.

    Attributes:
        width: number of inputs of the heads.
        ratio: m = width / base width.
        roles: by parameter name.
        layers: layer → the names of its weight and bias.
        scaled_embeddings: weights of embeddings that the network multiplies by the square root of their number of
            features.
    """

    width: int
    ratio: int
    roles: Mapping[str, Role]
    layers: Mapping[str, tuple[str, ...]]
    scaled_embeddings: frozenset[str]

    def parameters_of(self, layers: Iterable[str]) -> set[str]:
        """Return the weights and biases of named layers."""
        return {parameter for layer in layers for parameter in self.layers[layer]}


def ratio_to_base(context: InitializationContext, what: str, size: int, base: int) -> int:
    """Return size / base; an InitializationError says that the base does not fit."""
    if size % base:
        fault = "larger than" if base > size else "no divisor of"
        raise InitializationError(
            f"{context.record.initializer}: base_{what} {base} is {fault} the network's {what}, {size}"
        )
    return size // base


def find_network(model: nn.Module, context: InitializationContext, base_width: int) -> Network:
    """Return the roles of all parameters; refuse a model in which they are unknown."""
    structure, name = context.structure, context.record.initializer
    for what in ("layers", "heads"):
        if what in structure.unknown:
            raise InitializationError(f"{name}: the {what} cannot be determined: {structure.unknown[what]}")
    names = {id(parameter): parameter_name for parameter_name, parameter in model.named_parameters()}
    drawn = {names[id(layer.weight)]: layer for module in model.modules() for layer in weight_layers(module)}
    roles: dict[str, Role] = {}
    layers: dict[str, tuple[str, ...]] = {}
    for layer in structure.layers:
        weight = names[id(model.get_parameter(layer.weight))]
        if layer.kind != "embedding" and (weight not in drawn or layer.gains):
            raise InitializationError(f"{name}: {layer.weight} is no plain weight of a layer, so its role is unknown")
        role = _role(context, layer, drawn.get(weight))
        if roles.setdefault(weight, role) != role:
            raise InitializationError(
                f"{name}: {layer.weight} is shared by {' and '.join(sorted({role, roles[weight]}))} layers; untie it"
            )
        bias = drawn[weight].bias if weight in drawn else None
        layers[layer.name] = (weight,) if bias is None else (weight, names[id(bias)])
    width = _width(name, [drawn[weight] for weight, role in roles.items() if role == "output"])
    ratio = ratio_to_base(context, "width", width, base_width)
    for weight, role in roles.items():
        if role == "hidden" and ratio > 1:
            _check_grows(name, weight, drawn[weight], ratio)
    fixed = {parameter for head in structure.heads for parameter in layers[head]}
    for parameter_name, parameter in model.named_parameters():
        if parameter_name not in roles:
            is_fixed = parameter.numel() == 1 or parameter_name in fixed
            # Of the layers, those are left that did not run.
            roles[parameter_name] = "hidden" if parameter_name in drawn else "fixed" if is_fixed else "vector"
    scaled = {names[id(weight)] for weight in _scaled_embeddings(model, name)} if ratio > 1 else set()
    return Network(width, ratio, roles, layers, frozenset(weight for weight in scaled if roles[weight] == "input"))


def _scaled_embeddings(model: nn.Module, name: str) -> Iterator[nn.Parameter]:
    """Yield the weights of embeddings that are multiplied by √features.

    The factor is the attribute `embed_scale` of an embedding, or of the module whose `embed_tokens` it is: these are
    the names of fairseq and Hugging Face.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for where, module in modules.items():
        embedding = module if isinstance(module, nn.Embedding) else modules.get(f"{where}.embed_tokens".lstrip("."))
        factor = getattr(module, "embed_scale", 1.0)
        if not isinstance(embedding, nn.Embedding) or not isinstance(factor, int | float | Tensor) or factor == 1:
            continue
        # bfloat16 changes the square by up to 0.4 %
        if not math.isclose(float(factor) ** 2, embedding.embedding_dim, rel_tol=0.01):
            raise InitializationError(
                f"{name}: embed_scale of {where or type(model).__name__} is {factor:g}, neither 1 nor the square root "
                f"of the embedding's {embedding.embedding_dim} features, so how it grows with the width is unknown"
            )
        if not isinstance(embedding.weight, nn.Parameter):
            raise InitializationError(f"{name}: the weight of the embedding of {where} is computed: it holds no factor")
        yield embedding.weight


def _role(context: InitializationContext, layer: Layer, weight: WeightLayer | None) -> Role:
    structure = context.structure
    if layer.name in structure.heads:
        return "output"
    if weight is None or layer.kind == "embedding":
        return "input"
    # Embeddings are the first layers of tokens.
    tokens = bool(structure.embeddings) if context.inputs is None else context.inputs.vocabulary is not None
    is_first, is_depthwise = layer.depth == 1 and not tokens, weight.blocks > 1 and weight.inputs == 1
    return "input" if is_first or is_depthwise else "hidden"


def _width(name: str, heads: list[WeightLayer]) -> int:
    widths = sorted({head.fan_in for head in heads})
    if len(widths) != 1:
        raise InitializationError(
            f"{name}: the width is unknown: the heads have {' and '.join(map(str, widths))} inputs"
        )
    return widths[0]


def _check_grows(name: str, parameter: str, layer: WeightLayer, ratio: int) -> None:
    if layer.kernel and layer.blocks > 1:
        raise InitializationError(f"{name}: it is unknown whether the groups of {parameter} grow in number or in size")
    if layer.fan_in % ratio:
        raise InitializationError(
            f"{name}: {parameter} has {layer.fan_in} inputs, no multiple of width / base_width, which is {ratio}"
        )


def separate_queries(
    model: nn.Module, context: InitializationContext, ratio: int, *, heads: Heads | None, zero_query: bool
) -> tuple[str, ...]:
    """Return the layers of the queries if they are to be treated differently; otherwise nothing.

    They are with `zero_query`, and with wider heads. A model in which they share a layer with keys or values is
    refused, and so is one with attentions if `heads` is None and the width is not the base's.
    """
    structure, name = context.structure, context.record.initializer
    if ratio == 1 and not zero_query:
        return ()
    if "attention" in structure.unknown:
        raise InitializationError(f"{name}: the attentions cannot be determined: {structure.unknown['attention']}")
    if structure.attention and ratio > 1 and heads is None:
        raise InitializationError(f"{name}: attention_heads must say whether the width grows by more or by wider heads")
    grows = ratio > 1 and heads == "wider"
    if not zero_query and not grows:
        return ()
    for attention in structure.attention:
        where = attention.module or type(model).__name__
        if not attention.query or not {*attention.query}.isdisjoint({*attention.key, *attention.value}):
            raise InitializationError(f"{name}: no layer of {where} computes queries alone")
        within = f"{attention.module}." if attention.module else ""
        if grows and any(norm.startswith(within) for norm in structure.norms):
            raise InitializationError(f"{name}: the norms of {where} may undo the factor of wider heads")
    return tuple(dict.fromkeys(layer for attention in structure.attention for layer in attention.query))


def parametrize(
    model: nn.Module,
    context: InitializationContext,
    network: Network,
    law: Mapping[str, Factors],
    scale: Scale,
    zero: Iterable[str],
) -> None:
    """Draw the weights with their multipliers folded in, and record the rates that belong to them.

    Args:
        model: is changed.
        context: of the initializer.
        network: its roles.
        law: the factors of each parameter, by name.
        scale: of the weights.
        zero: the layers that start at 0.

    Raises:
        InitializationError: a frozen weight, which keeps its values, has a multiplier that cannot be folded into it.
    """
    writer, record = ParameterWriter(model, context), context.record
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for name, factors in law.items():
        if factors.multiplier != 1 and not model.get_parameter(name).requires_grad:
            raise InitializationError(
                f"{record.initializer}: {name} is frozen, so that its multiplier cannot be folded in"
            )
    zeros = network.parameters_of(zero)
    for embedding, padding in embeddings(model):
        std = law[names[id(embedding)]].multiplier * scale.embedding_std
        writer.draw(embedding, partial(normal_embedding, embedding, std, padding))
    for module in model.modules():
        for layer in weight_layers(module):
            name = names[id(layer.weight)]
            if name in zeros:
                writer.fill(layer.weight, 0.0)
            else:
                std = law[name].multiplier * scale.of(layer, network.roles[name], network.ratio)
                writer.draw(layer.weight, partial(sample, layer, std, "normal"))
            writer.fill(layer.bias, 0.0)
        if isinstance(module, NORM_LAYERS):
            writer.reset_norm(module)
    folded = {name: factors.folded(context.optimizer.name) for name, factors in law.items()}
    record.learning_rate_multipliers |= {n: f.learning_rate for n, f in folded.items() if f.learning_rate != 1}
    record.weight_decay_multipliers |= {n: f.weight_decay for n, f in folded.items() if f.weight_decay != 1}
    record.epsilon_multipliers |= {n: f.epsilon for n, f in folded.items() if f.epsilon != 1}
    record.conditions |= {"width": network.width, "width_ratio": network.ratio, "roles": dict(network.roles)}
