"""The graph of a model's run: which tensor was computed from which, in which module, with which parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from initbench.structure.functions import ADDITIONS, BOUNDED, CHOSEN, FACTORS, MOVES, SELECTIONS, Place


@dataclass(frozen=True)
class LayerUse:
    """A weight that a function used.

    Attributes:
        name: the layer: the module that owns the weight where the weight is all that it has of its kind, else the
            weight's own name.
        kind: linear, bilinear, convolution, embedding, attention or recurrent.
        weight: the parameter's name; of a parametrized weight that of the largest parameter that it is made from.
        step: 0, and 1 for the output projection of `multi_head_attention_forward`, which runs behind the others.
        gains: the other parameters of its module that the weight is made from, such as those of a standardized weight.
    """

    name: str
    kind: str
    weight: str
    step: int = 0
    gains: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Node:
    """A call of a function of torch, or a tensor that none gave.

    Attributes:
        index: nodes are numbered in the order in which they run.
        function: what ran (see `functions.name_of`); ``input``, ``parameter`` or ``constant`` for a tensor that was
            there before; ``item`` for one of several results, or for a tensor into whose memory was written; ``unseen``
            for what is computed from a module's inputs by code that does not show itself, such as scripted functions.
        module: the innermost module that ran.
        arguments: the tensors among the arguments, by place.
        from_input: whether it depends on the values of the model's inputs.
        parameters: the parameters that a node is computed from, where these and constants are all; else none.
        layers: the weights that the function used, without those of position and token embeddings' sums.
        results: how many tensors it gave.
        dims: sizes of its result.
    """

    index: int
    function: str
    module: str
    arguments: dict[Place, Node] = field(default_factory=dict)
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
        """Those of its sources that depend on the values of the model's inputs."""
        return [source for source in self.sources if source.from_input]

    @property
    def steps(self) -> int:
        """The number of weight layers of the node, one after another; embeddings, which look up, are none."""
        return max((use.step + 1 for use in self.layers if use.kind != "embedding"), default=0)

    @property
    def last_layers(self) -> list[str]:
        """The names of the layers whose results are the node's, embeddings aside."""
        return [use.name for use in self.layers if use.kind != "embedding" and use.step + 1 == self.steps]

    def at(self, places: Iterable[Place]) -> list[Node]:
        return [self.arguments[place] for place in places if place in self.arguments]


@dataclass(frozen=True)
class Return:
    """A module that returned a node's tensor.

    Attributes:
        module: its name.
        nodes: the number of nodes that there were then.
        passed: whether the module holds no other and was given the tensor, as the identity is.
    """

    module: str
    nodes: int
    passed: bool


@dataclass
class RunGraph:
    """What a run of a model has shown.

    Attributes:
        nodes: in the order in which they ran.
        outputs: the nodes of the tensors that the model returned.
        calls: how often each module was called, in the order of their first calls.
        returned: the modules whose whole result was a node's tensor, inner ones first.
        unseen: module → its parameters with two or more dimensions that no visible function has used, of modules in
            which something ran that does not show itself.
        unused: parameters that no function has read.
        passes: forward passes that it took.
    """

    nodes: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    returned: dict[Node, list[Return]] = field(default_factory=dict)
    unseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    passes: int = 1

    def consumers(self) -> dict[Node, list[Node]]:
        found: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for source in node.sources:
                found.setdefault(source, []).append(node)
        return found


def placed_tensors(value: Any, place: tuple[int | str, ...] = ()) -> Iterator[tuple[tuple[int | str, ...], Tensor]]:
    """Yield the tensors in an argument or result, with where they stand: in lists, dictionaries and dataclasses."""
    if torch.is_tensor(value):
        yield place, value
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from placed_tensors(part, (*place, index))
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from placed_tensors(part, (*place, str(key)))
    elif hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from placed_tensors(getattr(value, name, None), (*place, name))


def tensors_in(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in placed_tensors(value)]


_SCALED = {*FACTORS, *ADDITIONS, "sub", "rsub"}
_PLACED = {*MOVES, *SELECTIONS, "div"}


def signals(node: Node, depths: Mapping[Node, int], shortcuts: Mapping[Node, Node]) -> list[Node]:
    """Return what a node's signal is computed from, given the weight layers one after another up to and with each node.

    Of a product that is not a gate, of a residual block's sum its shortcut alone, of a choice not what chooses.

    A gate is a factor that a sigmoid, a softmax or the like gave and that has more or fewer layers behind it than the
    others: that of squeeze and excitation has more (Hu et al., 2018), the weights of experts have fewer (Shazeer et
    al., 2017). Both factors of a gated linear unit (Shazeer, 2020), or of a focal modulation, are signals.
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
    """Return for each node the number of weight layers on the longest way from an input, up to and with the node."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        sources = signals(node, depths, {}) or node.sources
        depths[node] = max((depths[source] for source in sources), default=0) + node.steps
    return depths


def _is_bounded(node: Node) -> bool:
    """Return whether a function with bounded values gave a tensor, up to its scale and the places of entries."""
    current = node
    while current.function not in BOUNDED:
        # Their first argument is what a move or a choice is of, and what a division, as by a sum, gives in parts.
        scaled = current.function in _SCALED and len(current.signals) == 1
        placed = current.function in _PLACED and current.signals
        if not (scaled or placed):
            return False
        current = current.signals[0]
    return True
