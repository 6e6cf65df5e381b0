"""Residual branches, their stages, and transformer blocks, as initializers need them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.context import InitializationContext
from initbench.initializers.distribution import WeightLayer, weight_layers
from initbench.structure import stacks
from initbench.structure.backward import in_words, locked_branch
from initbench.structure.find import Structure, unused_in_words
from initbench.structure.residual import ResidualBranch, scalar_gate
from initbench.structure.stacks import Stack

_SAMPLES = 2  # for a backward pass


def known_branches(context: InitializationContext) -> tuple[ResidualBranch, ...]:
    """Return the residual branches, possibly none, and record their number; refuse a model if they are unknown."""
    structure = context.structure
    if "branches" in structure.unknown:
        reason = structure.unknown["branches"]
        raise InitializationError(f"{context.record.initializer}: the residual branches cannot be determined: {reason}")
    _refuse_unused_layers(context)
    context.record.conditions["residual_branches"] = len(structure.branches)
    return structure.branches


def _refuse_unused_layers(context: InitializationContext) -> None:
    """Refuse a model whose experts one sample does not all use, because the unused ones would get another law."""
    unused = context.structure.unused_in_blocks(context.model)
    if unused is not None:
        raise InitializationError(f"{context.record.initializer}: {unused_in_words(unused)}")


def required_branches(context: InitializationContext) -> tuple[ResidualBranch, ...]:
    branches = known_branches(context)
    if not branches:
        kind = type(context.model).__name__
        raise InitializationError(f"{context.record.initializer}: no residual branches are found in {kind}")
    return branches


def refuse_locked_branches(model: nn.Module, context: InitializationContext) -> None:
    """Raise an InitializationError if a head or a residual branch is 0 and stays 0 whatever the training.

    Branches that are closed by a single factor of 0, whose gradient is not 0, are what ZerO and Fixup intend. See
    `structure.backward.locked_branch`.
    """
    locked = locked_branch(model, context.sample_inputs(_SAMPLES), context.structure)
    if locked:
        raise InitializationError(f"{context.record.initializer}: {in_words(locked)}")


def transformer_stacks(context: InitializationContext) -> tuple[Stack, ...]:
    try:
        return stacks.transformer_stacks(context.structure)
    except InitializationError as error:
        raise InitializationError(f"{context.record.initializer}: {error}") from error


def required_gates(model: nn.Module, branches: Iterable[ResidualBranch], scheme: str) -> list[str]:
    gates: list[str] = []
    for branch in branches:
        gate = scalar_gate(model, branch)
        if gate is None:
            raise InitializationError(
                f"{scheme}: the residual branch of {branch.block or type(model).__name__} ends in no scalar "
                f"multiplier; initbench.rewrite(model, '{scheme}') puts one there"
            )
        gates.append(gate)
    return gates


def weights_of(model: nn.Module, structure: Structure, layers: Iterable[str]) -> Iterator[nn.Parameter]:
    """Yield the weights of the named layers; for a parametrized weight, the largest parameter that it is made from."""
    names = set(layers)
    for layer in structure.layers:
        if layer.name in names:
            yield model.get_parameter(layer.weight)


def stages(model: nn.Module, branches: Sequence[ResidualBranch]) -> list[list[ResidualBranch]]:
    """Group the branches into stages, in the order in which they are added.

    The branches of a stage follow one another and have outputs of one shape: a new stage begins when the number of
    channels changes or a branch makes its input smaller. Modules are ignored, because the network of Arpit, Campos &
    Bengio (2019) keeps the blocks of all three stages in one.
    """
    rows: list[list[ResidualBranch]] = []
    channels: int | None = None
    for branch in branches:
        ends = modules_of(model, branch.ends)
        added = _channels(ends[-1]) if ends else channels
        if not rows or added != channels or any(map(_shrinks, modules_of(model, branch.inner + branch.ends))):
            rows.append([])
        rows[-1].append(branch)
        channels = added
    return rows


def modules_of(model: nn.Module, layers: Iterable[str]) -> list[nn.Module]:
    """Return the named layers that are modules.

    Some are named after a bare weight instead, such as the experts of a mixture in transformers, whose weights share
    one module.
    """
    modules = []
    for name in layers:
        with suppress(AttributeError):
            modules.append(model.get_submodule(name))
    return modules


def _channels(layer: nn.Module) -> int | None:
    """Return the number of outputs of a branch's last layer, or None if it has no weight of its own."""
    return next((weight.blocks * weight.outputs for weight in weight_layers(layer)), None)


def _shrinks(layer: Any) -> bool:
    """Return whether a layer's output has fewer positions than its input."""
    stride = getattr(layer, "stride", 1)
    return max(stride) > 1 if isinstance(stride, tuple) else stride > 1


_NO_BLOCK = (
    "found no transformer block, that is, an attention followed by a feed-forward part, a residual branch of at least "
    "two layers"
)
_RULE = "it is unclear how many feed-forward parts it counts as"


@dataclass
class TransformerBlocks:
    """The transformer blocks of a model, counted by feed-forward parts that follow an attention.

    Attributes:
        number: how many blocks there are.
        projections: the last layers of the attentions and feed-forward parts, in the order of the blocks, and the
            number of the block of each, from 1. Parallel blocks have the number of the last of them.
        up: the same for the up projections of gated feed-forward parts, see `ResidualBranch.linear_factors`.
    """

    number: int = 0
    projections: dict[str, int] = field(default_factory=dict)
    up: dict[str, int] = field(default_factory=dict)

    def add(self, number: int, projections: Iterable[str], up: Iterable[str]) -> None:
        self.number += number
        for layers, numbers in ((projections, self.projections), (up, self.up)):
            for layer in layers:
                numbers.setdefault(layer, self.number)


def transformer_blocks(model: nn.Module, context: InitializationContext) -> TransformerBlocks:
    """Return the transformer blocks of a model.

    A feed-forward part is a residual branch without attention and with at least two layers, all of which act on each
    position separately: linear layers or convolutions of size 1, possibly with depthwise convolutions between them. A
    block is a feed-forward part together with the attentions that lead to it since the previous feed-forward part. An
    attention may be a residual branch or lack a shortcut, as in LeViT's downsampling and in attention pooling. A branch
    that adds an attention and a feed-forward part in one sum, as in GPT-J, is also a block; one that adds k attentions
    at once, followed by k feed-forward parts, is k blocks. A layer that runs several times counts once.

    Branches that end in a convolution and follow no attention are ignored: convolutional stages before the transformer
    blocks, and inverted bottlenecks between them.

    Raises:
        InitializationError: there is no block; a feed-forward part of linear layers follows no attention; a branch is a
            single linear layer, or adds some other number of layers; or branches or attentions cannot be determined.
    """
    name, structure = context.record.initializer, context.structure
    for what, words in (("branches", "the residual branches"), ("attention", "the attentions")):
        if what in structure.unknown:
            raise InitializationError(f"{name}: {words} cannot be determined: {structure.unknown[what]}")
    _refuse_unused_layers(context)
    finder = _Finder(model, structure)
    try:
        return finder.blocks()
    except ValueError as error:
        raise InitializationError(f"{name}: {error}") from error


class _Finder:
    def __init__(self, model: nn.Module, structure: Structure) -> None:
        self._modules = dict(model.named_modules())
        self._kinds = {layer.name: layer.kind for layer in structure.layers}
        self._attending = {layer for attention in structure.attention for layer in attention.output}
        # A branch that is added several times counts once, where it is first added.
        self._branches = list({branch.ends: branch for branch in reversed(structure.branches)}.values())[::-1]
        self._of_end = {end: branch for branch in reversed(self._branches) for end in branch.ends}

    def blocks(self) -> TransformerBlocks:
        blocks, alone = TransformerBlocks(), list[str]()
        for branch in self._branches:
            within = self._attentions_beside_others(branch)
            if within:
                number, attentions = len(branch.ends) - len(within), [within]
            elif self._is_feed_forward(branch):
                number, attentions = len(branch.ends), self._attentions_before(branch)
            else:
                if branch.depth == 1 and self._is_of_linear_layers(branch) and not self._attends(branch):
                    alone.append(f"{branch.ends[0]}.weight forms a residual branch on its own: {_RULE}")
                continue
            if attentions:
                # One feed-forward part may follow any number of attentions, as in a decoder with cross-attention.
                if number not in {1, len(attentions[0])} or (within and number != len(within)):
                    raise ValueError(f"{branch.ends[0]}.weight is one of {len(branch.ends)} ends of a branch: {_RULE}")
                before = [name for ends in reversed(attentions) for name in ends if name not in branch.ends]
                blocks.add(number, [*before, *branch.ends], branch.linear_factors)
            elif self._is_of_linear_layers(branch) or self._is_behind_attention(branch):
                alone.append(f"{branch.ends[0]}.weight ends a feed-forward part without an attention")
        if not blocks.number:
            raise ValueError(_NO_BLOCK)
        for problem in alone:
            raise ValueError(problem)
        return blocks

    def _attentions_beside_others(self, branch: ResidualBranch) -> tuple[str, ...]:
        """Return the attentions' ends of a branch that also adds feed-forward parts, as in GPT-J; otherwise nothing."""
        attending = tuple(end for end in branch.ends if end in self._attending)
        others = [end for end in branch.ends if end not in self._attending]
        return attending if others and all(map(self._maps_positions, others)) else ()

    def _is_feed_forward(self, branch: ResidualBranch) -> bool:
        if branch.depth < 2 or self._attends(branch):
            return False
        within = all(self._maps_positions(layer) or self._is_depthwise(layer) for layer in branch.inner)
        return within and all(map(self._maps_positions, branch.ends))

    def _is_of_linear_layers(self, branch: ResidualBranch) -> bool:
        return all(self._kinds[end] == "linear" for end in branch.ends)

    def _is_behind_attention(self, branch: ResidualBranch) -> bool:
        """Return whether a branch whose layers all act on each position separately runs after an attention."""
        ran = itertools.takewhile(lambda layer: layer not in branch.ends, self._kinds)
        return not self._attending.isdisjoint(ran) and all(map(self._maps_positions, branch.inner))

    def _attends(self, branch: ResidualBranch) -> bool:
        return not self._attending.isdisjoint([*branch.inner, *branch.ends])

    def _attentions_before(self, branch: ResidualBranch) -> list[tuple[str, ...]]:
        """Return the ends of the attentions that a branch's input comes from, the last first.

        The search stops at a feed-forward part and passes through other branches, such as a depthwise convolution in
        between.
        """
        attentions: dict[tuple[str, ...], None] = {}
        seen: set[str] = set()
        pending = list(branch.follows)
        while pending:
            layer = pending.pop(0)
            if layer in seen:
                continue
            seen.add(layer)
            before = self._of_end.get(layer)
            if before is None:
                if layer in self._attending:  # one without a shortcut
                    attentions[(layer,)] = None
            elif self._attends(before):
                if not self._attentions_beside_others(before):
                    attentions[before.ends] = None
                    pending += before.follows
            elif not self._is_feed_forward(before):
                pending += before.follows
        return list(attentions)

    def _maps_positions(self, layer: str) -> bool:
        taps = [size for weight in self._convolution(layer) for size in weight.kernel]
        return self._kinds[layer] == "linear" or (bool(taps) and max(taps) == 1)

    def _is_depthwise(self, layer: str) -> bool:
        return any(weight.inputs == 1 for weight in self._convolution(layer))

    def _convolution(self, layer: str) -> list[WeightLayer]:
        """Return the weight of a convolution that is a module; otherwise nothing."""
        is_module = self._kinds[layer] == "convolution" and layer in self._modules
        return list(weight_layers(self._modules[layer])) if is_module else []
