"""The graph of a model's run: which tensor was computed from which, in which module, with which parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from initbench.structure.functions import ADDITIONS, BOUNDED, CHOSEN, FACTORS, MOVES, SELECTIONS, ArgumentKey


@dataclass(frozen=True)
class WeightAxes:
    """The dimensions of a weight that count independent matrices, their outputs and their inputs."""

    blocks: tuple[int, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]

    def moved(self, to: Mapping[int, int]) -> WeightAxes:
        """Return the same of a tensor whose dimensions have other places."""
        parts = (self.blocks, self.outputs, self.inputs)
        return WeightAxes(*(tuple(to.get(axis, axis) for axis in part) for part in parts))


@dataclass(frozen=True)
class LayerUse:
    """A weight that a function used; `name`, `kind`, `weight`, `gains` and `axes` are as in `Layer`.

    `step` is 0, or 1 for the output projection of `multi_head_attention_forward`, which runs after the others.
    """

    name: str
    kind: str
    weight: str
    step: int = 0
    gains: tuple[str, ...] = ()
    axes: WeightAxes | None = None


@dataclass(eq=False, slots=True)
class Node:
    """A call of a torch function, or a tensor that existed before the run.

    Attributes:
        index: nodes are numbered in the order in which they run.
        function: the function (see `functions.name_of`); ``input``, ``parameter`` or ``constant`` for a tensor that
            existed before; ``item`` for one of several results, or a tensor whose memory was written into; ``unseen``
            for results of code that the recorder does not see, such as scripted functions, taken to depend on all of
            the module's inputs.
        module: the innermost running module.
        from_input: whether it depends on the values of the model's inputs.
        parameters: the parameters that the node is computed from, if it depends only on these and constants; otherwise
            empty.
        layers: the weights that the function used, without those of sums of position and token embeddings.
        results: the number of tensors returned.
        dims: sizes of its result.
    """

    index: int
    function: str
    module: str
    arguments: dict[ArgumentKey, Node] = field(default_factory=dict)
    from_input: bool = False
    parameters: tuple[str, ...] = ()
    layers: tuple[LayerUse, ...] = ()
    results: int = 1
    dims: tuple[int, ...] = ()

    @property
    def sources(self) -> list[Node]:
        return list(dict.fromkeys(self.arguments.values()))

    @property
    def signals(self) -> list[Node]:
        """Its sources that depend on the values of the model's inputs."""
        return [source for source in self.sources if source.from_input]

    @property
    def steps(self) -> int:
        """The number of consecutive weight layers in the node; embeddings, which only look up, do not count."""
        return max((use.step + 1 for use in self.layers if use.kind != "embedding"), default=0)

    @property
    def last_layers(self) -> list[str]:
        """The names of the layers whose results are the node's, except embeddings."""
        return [use.name for use in self.layers if use.kind != "embedding" and use.step + 1 == self.steps]

    def at(self, keys: Iterable[ArgumentKey]) -> list[Node]:
        return [self.arguments[key] for key in keys if key in self.arguments]


@dataclass(frozen=True)
class Return:
    """A module that returned a node's tensor when there were so many nodes.

    `passed` says whether the module has no children and returned its input, like the identity.
    """

    module: str
    nodes: int
    passed: bool


@dataclass
class RunGraph:
    """The graph recorded in a run of a model.

    Attributes:
        calls: how often each module was called, in the order of the first calls.
        returned: the modules whose whole result was a node's tensor, innermost first.
        unseen: for modules with code that the recorder does not see: module → its parameters with two or more
            dimensions that no visible function used.
        unused: parameters that no function read.
    """

    nodes: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    returned: dict[Node, list[Return]] = field(default_factory=dict)
    unseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    def consumers(self) -> dict[Node, list[Node]]:
        consumers: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for source in node.sources:
                consumers.setdefault(source, []).append(node)
        return consumers


def walk(start: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """Yield each node on the paths from some nodes once, these included, depth first."""
    seen: set[Node] = set()
    pending = list(start)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending += following(node)


def tensors_with_paths(value: Any, path: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], Tensor]]:
    """Yield the tensors in an argument or result with their paths in lists, dictionaries and dataclasses."""
    if torch.is_tensor(value):
        yield path, value
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from tensors_with_paths(part, (*path, index))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from tensors_with_paths(part, (*path, str(key)))
    elif hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from tensors_with_paths(getattr(value, name, None), (*path, name))


def tensors_in(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in tensors_with_paths(value)]


_SCALED = {*FACTORS, *ADDITIONS, "sub", "rsub"}
_REARRANGED = {*MOVES, *SELECTIONS, "div"}


def signals(node: Node, depths: Mapping[Node, int], shortcuts: Mapping[Node, Node]) -> list[Node]:
    """Return the sources of a node's signal; `depths` are the consecutive weight layers up to and including each node.

    A gated product has only the ungated factor, a residual sum only its shortcut, a choice only the values chosen from.
    A gate is a factor that comes from a sigmoid, a softmax or the like and has a different number of layers before it
    than the other factors: more in squeeze and excitation (Hu et al., 2018), fewer for the weights of experts (Shazeer
    et al., 2017). Both factors of a gated linear unit (Shazeer, 2020) or a focal modulation are signals.
    """
    if node in shortcuts:
        return [shortcuts[node]]
    sources = node.signals
    if node.function in CHOSEN:
        return [source for source in dict.fromkeys(node.at(CHOSEN[node.function])) if source.from_input]
    if node.function not in FACTORS:
        return sources
    depth = {source: depths.get(source, 0) for source in sources}
    if len(set(depth.values())) < 2:
        return sources
    unbounded = [source for source in sources if not _is_bounded(source)]
    return unbounded or [source for source in sources if depth[source] == min(depth.values())]


def depths_from_input(graph: RunGraph) -> dict[Node, int]:
    """Return for each node the number of weight layers on the longest path from an input up to and including it."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        sources = signals(node, depths, {}) or node.sources
        depths[node] = max((depths[source] for source in sources), default=0) + node.steps
    return depths


def _is_bounded(node: Node) -> bool:
    """Return whether a tensor comes from a function with bounded values, up to scaling and moving entries."""
    current = node
    while current.function not in BOUNDED:
        # The first argument is the tensor that is moved, chosen from, or divided, for example by a sum.
        scaled = current.function in _SCALED and len(current.signals) == 1
        rearranged = current.function in _REARRANGED and current.signals
        if not (scaled or rearranged):
            return False
        current = current.signals[0]
    return True
