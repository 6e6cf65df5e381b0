"""GPT-2's initialization of transformers: residual projections scaled by depth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from initbench.checks import check_positive
from initbench.errors import InitializationError
from initbench.initializers.context import Apply  # noqa: TC001 - the registry evaluates the annotations
from initbench.initializers.distribution import weight_layers
from initbench.initializers.parameter_writer import ParameterWriter, normal, normal_embedding, own_parameter
from initbench.registry import register_initializer
from initbench.structure.kinds import NORM_LAYERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from initbench.initializers.context import InitializationContext
    from initbench.initializers.events import Law

_NO_BLOCK = (
    "gpt2: no transformer block found, which is a module with an attention (nn.MultiheadAttention, or linear layers to "
    "queries, keys and values and then one back to the width of the model) and a feed-forward part (a linear layer "
    "from that width, and a later one back to it)"
)


@register_initializer(
    "gpt2",
    reference="Radford et al., Language Models are Unsupervised Multitask Learners (GPT-2), 2019, section 2.3; "
    "Shoeybi et al., Megatron-LM, 2019, section 4.2",
)
def gpt2(std: float = 0.02, residual: Literal["scaled", "unscaled", "zero"] = "scaled") -> Apply:
    """Entries ~ N(0, std²), divided by √(2N) in the last weights of the residual branches of N transformer blocks.

    A block adds twice to its input: so divided, what N blocks add does not grow with N. Drawn are the weights of linear
    layers, convolutions and attention, embeddings (a padding row is 0), and position embeddings: parameters of two
    dimensions or more whose own name begins with ``pos``. Biases are 0, norm layers 1 and 0. All else, such as class
    tokens and the gates of LayerScale, stays as the model was built and is untouched in the record. This is what
    Megatron-LM and Hugging Face's GPT-2 do; OpenAI's own code scales nothing, and has 0.01 for positions.

    Blocks are found by shapes, not by names, and the record has N and the weights that were taken for residual
    projections. An attention is an nn.MultiheadAttention, or the smallest module, containers aside, that has linear
    layers from one width to queries, keys and values and then a projection, back to that width or of its own: one, two
    or three layers that give multiples of what the projection takes, thrice that in all, or three, of which the first
    gives just that and the others the same as each other. A feed-forward part is the smallest module that has, of its
    other linear layers, one from a width and a later one back to it, its projection. A block is a pair of the two whose
    projections give the same width, in the smallest module that has both; so is the pair in a pooling by attention. A
    feed-forward part that is left, such as in a block of convolutions, is refused: the rule does not say how it counts.

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
        blocks = _Blocks(model)
        projections = {id(own_parameter(module, "weight")) for module in blocks.projections.values()}
        projection_std = std / math.sqrt(2 * blocks.number) if residual == "scaled" else std
        writer = ParameterWriter(model, context)
        for embedding, padding in _embeddings(model):
            writer.draw(embedding, partial(normal_embedding, embedding, std, padding))
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
        context.record.conditions |= {"blocks": blocks.number, "residual_projections": list(blocks.projections)}

    return apply


def _embeddings(model: nn.Module) -> Iterator[tuple[nn.Parameter, int | None]]:
    """Yield the model's embeddings, those of positions too, each with the row that is padding."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.Embedding | nn.EmbeddingBag) and name == "weight":
                yield parameter, module.padding_idx
            elif name.startswith("pos") and parameter.dim() > 1:
                yield parameter, None


def _normal_projection(parameter: nn.Parameter, std: float, generator: torch.Generator) -> tuple[Tensor, Law]:
    values, law = normal(parameter, std, generator)
    return values, law | {"part": "residual projection"}


@dataclass
class _Parts:
    """What lies within a module and is not part of a block.

    Attributes:
        linears: linear layers of no attention and no feed-forward part, in the order in which they are registered.
        attentions: projections of attentions.
        feed_forwards: projections of feed-forward parts.
    """

    linears: list[nn.Linear] = field(default_factory=list)
    attentions: list[nn.Linear] = field(default_factory=list)
    feed_forwards: list[nn.Linear] = field(default_factory=list)


class _Blocks:
    """The transformer blocks of a model.

    Attributes:
        number: of blocks, that is of feed-forward parts beside an attention.
        projections: the last layer of each attention and feed-forward part of a block, by the name of its weight.
    """

    def __init__(self, model: nn.Module) -> None:
        self.number = 0
        self.projections: dict[str, nn.Linear] = {}
        self._names = {id(module): f"{name}.weight" for name, module in model.named_modules()}
        self._attentions = _attentions(model)
        rest = self._visit(model)
        if not self.number:
            raise InitializationError(_NO_BLOCK)
        self._refuse(rest.feed_forwards)

    def _visit(self, module: nn.Module) -> _Parts:
        """Take the blocks within a module, and return the rest."""
        before, parts = self.number, _Parts()
        projection = self._attentions.get(module)
        if projection is not None:
            linears = _linears(module.modules())
            parts = _Parts(linears[linears.index(projection) + 1 :], [projection])
        elif isinstance(module, nn.Linear):
            parts.linears.append(module)
        else:
            for child in map(self._visit, module.children()):
                parts.linears += child.linears
                parts.attentions += child.attentions
                parts.feed_forwards += child.feed_forwards
        if self.number > before:
            parts.linears = []  # before, between or after blocks, thus of no branch
        _take_feed_forward(parts)
        for width in {linear.out_features for linear in parts.attentions}:
            self._take_blocks(parts, width)
        return parts

    def _take_blocks(self, parts: _Parts, width: int) -> None:
        """Take the attentions and feed-forward parts of one width for blocks, where there are both."""
        attentions = [linear for linear in parts.attentions if linear.out_features == width]
        feed_forwards = [linear for linear in parts.feed_forwards if linear.out_features == width]
        if not feed_forwards:
            return
        self._refuse(feed_forwards[len(attentions) :])
        self.number += len(feed_forwards)
        self.projections |= {self._names[id(linear)]: linear for linear in attentions + feed_forwards}
        parts.attentions = [linear for linear in parts.attentions if linear.out_features != width]
        parts.feed_forwards = [linear for linear in parts.feed_forwards if linear.out_features != width]

    def _refuse(self, feed_forwards: list[nn.Linear]) -> None:
        """Raise an InitializationError if a feed-forward part is left without an attention."""
        for linear in feed_forwards:
            name = self._names[id(linear)]
            raise InitializationError(f"gpt2: {name} ends a feed-forward part that no attention was found for")


def _take_feed_forward(parts: _Parts) -> None:
    """Take the last of some linear layers that comes back to a width for the end of a feed-forward part."""
    widths = {linear.out_features for linear in parts.attentions}  # beside an attention it has that width
    for index, last in reversed(list(enumerate(parts.linears))):
        width = last.out_features
        if width in (widths or {width}) and any(linear.in_features == width for linear in parts.linears[:index]):
            parts.linears = []
            parts.feed_forwards.append(last)
            return


def _attentions(module: nn.Module) -> dict[nn.Module, nn.Linear]:
    """Return the attentions within a module, which may be one itself, with their projections."""
    if isinstance(module, nn.MultiheadAttention):
        return {module: module.out_proj}
    found = {attention: last for child in module.children() for attention, last in _attentions(child).items()}
    if not found and not isinstance(module, nn.Sequential | nn.ModuleList | nn.ModuleDict):
        # An attention's own layers first: those of a part of it, such as of position biases, are not of its width.
        projection = _projection(_linears(module.children())) or _projection(_linears(module.modules()))
        if projection is not None:
            found[module] = projection
    return found


def _projection(linears: list[nn.Linear]) -> nn.Linear | None:
    """Return the first of some linear layers that can be the projection of an attention."""
    for index, last in enumerate(linears[1:], start=1):
        width = linears[index - 1].in_features
        if last.out_features not in {width, last.in_features}:
            continue
        given = [linear.out_features for linear in linears[:index] if linear.in_features == width]
        thrice = sum(given) == 3 * last.in_features and not any(size % last.in_features for size in given)
        # One that gives what the projection does, from elsewhere, ends a branch: these are layers of several blocks.
        several = any(linear.out_features == last.out_features != linear.in_features for linear in linears[:index])
        shared_keys = len(given) == 3 and given[0] == last.in_features and given[1] == given[2]
        if (thrice or shared_keys) and not several:
            return last
    return None


def _linears(modules: Iterator[nn.Module]) -> list[nn.Linear]:
    return [module for module in modules if isinstance(module, nn.Linear)]
