"""Attention: the layers of its queries, keys, values and output.

It recognizes torch's `scaled_dot_product_attention` and `multi_head_attention_forward`, and a softmax of a product of
two tensors that multiplies a third tensor (Vaswani et al., Attention Is All You Need, 2017, equation 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from initbench.structure.functions import FUSED_ATTENTION
from initbench.structure.layer import ATTENTION
from initbench.structure.positions import factors
from initbench.structure.run_graph import Node, RunGraph, walk

_index = attrgetter("index")


@dataclass(frozen=True)
class Attention:
    """An attention, described by the names of its layers; a weight without a layer appears under the parameter's name.

    Attributes:
        module: the module in which it runs.
        query: the layers that the queries come from; empty if no layer is between them and the block's input.
        key: the layers that the keys come from.
        value: the layers that the values come from.
        output: the layers that receive its result, except those after a residual sum.
    """

    module: str
    query: tuple[str, ...]
    key: tuple[str, ...]
    value: tuple[str, ...]
    output: tuple[str, ...]

    @property
    def fused(self) -> bool:
        """Whether a single layer computes queries, keys and values."""
        return len(self.query) == 1 and self.query == self.key == self.value


def find_attention(graph: RunGraph, shortcuts: Mapping[Node, Node]) -> tuple[list[Attention], str | None]:
    """Return the attentions in the order in which they run, and the reason if some may be missing.

    A product of two results that is not such an attention may be another kind, such as linear attention, and some
    projections may not be found. `shortcuts` are the sums of residual blocks, where the search for layers ends.
    """
    return _Finder(graph, shortcuts).result()


class _Finder:
    def __init__(self, graph: RunGraph, shortcuts: Mapping[Node, Node]) -> None:
        self._graph, self._shortcuts = graph, shortcuts
        self._consumers = graph.consumers()
        self._products = [node for node in graph.nodes if node.from_input and factors(node)]
        self._explained: set[Node] = set()
        self._attentions: dict[Node, Attention] = {}

    def result(self) -> tuple[list[Attention], str | None]:
        for node in self._graph.nodes:
            if node.function == ATTENTION:
                self._add_whole(node)
            elif node.function == FUSED_ATTENTION:
                self._add(node, node.at((0, "query")), node.at((1, "key")), node.at((2, "value")))
            elif node.function == "softmax" and node.from_input:
                self._look_around(node)
        attentions = [self._attentions[node] for node in sorted(self._attentions, key=_index)]
        return attentions, self._unknown(attentions)

    def _unknown(self, attentions: list[Attention]) -> str | None:
        others = [node for node in self._products if node not in self._explained]
        if others:
            where = others[0].module or "the model"
            return f"{where} multiplies two results, which may be an attention without a softmax"
        for one in attentions:
            lacking = [role for role in ("query", "key", "value", "output") if not getattr(one, role)]
            if lacking:
                return f"no weight layer is found for the {' and '.join(lacking)} of {one.module or 'the model'}"
        return None

    def _add_whole(self, node: Node) -> None:
        """Add a call of torch's function for a complete attention, which includes the projections."""
        inputs = [use for use in node.layers if use.step == 0]
        # One weight for all three, or one each, in this order.
        roles = [(use.name,) for use in (inputs * 3 if len(inputs) == 1 else inputs)]
        if len(roles) == 3:
            query, key, value = roles
            output = tuple(use.name for use in node.layers if use.step == 1)
            self._attentions[node] = Attention(node.module, query, key, value, output)

    def _look_around(self, softmax: Node) -> None:
        """Add the attention around a softmax: the product before it, and the product of its result with the values."""

        def is_score(node: Node) -> bool:
            return node in self._products and node.index < softmax.index and _are_nested(node, softmax)

        before = self._reached([softmax], lambda node: node.signals, is_score, through_layers=True)
        behind = self._reached(
            [softmax],
            lambda node: self._consumers.get(node, []),
            lambda node: node in self._products and _are_nested(node, softmax),
            through_layers=True,
        )
        if not before or not behind:
            return
        scores, mixed = min(before, key=_index), min(behind, key=_index)
        weighted = self._upwards(softmax, mixed)
        values = [factor for factor in factors(mixed) if factor not in weighted]
        self._explained |= {*before, *behind}
        query, key = factors(scores)
        self._add(mixed, [query], [key], values)

    def _upwards(self, start: Node, end: Node) -> set[Node]:
        """Return the nodes that depend on a node, up to another node."""
        dependents = {start}
        for node in self._graph.nodes[start.index + 1 : end.index + 1]:
            if dependents & set(node.sources):
                dependents.add(node)
        return dependents

    def _add(self, core: Node, query: list[Node], key: list[Node], value: list[Node]) -> None:
        self._attentions[core] = Attention(
            core.module,
            self._layers(query, lambda node: node.sources),
            self._layers(key, lambda node: node.sources),
            self._layers(value, lambda node: node.sources),
            self._layers(self._consumers.get(core, []), lambda node: self._consumers.get(node, []), forwards=True),
        )

    def _layers(
        self, start: list[Node], following: Callable[[Node], list[Node]], *, forwards: bool = False
    ) -> tuple[str, ...]:
        reached = self._reached(start, following, lambda node: node.steps > 0, start_counts=True)
        names = [
            name
            for node in sorted(reached, key=_index)
            for name in ([use.name for use in node.layers if use.step == 0] if forwards else node.last_layers)
        ]
        return tuple(dict.fromkeys(names))

    def _reached(
        self,
        start: list[Node],
        following: Callable[[Node], Iterable[Node]],
        wanted: Callable[[Node], bool],
        *,
        start_counts: bool = False,
        through_layers: bool = False,
    ) -> list[Node]:
        """Return the first wanted nodes on each path from some nodes; a path ends at a residual sum.

        Nodes of `start` count if `start_counts`; paths continue after a weight layer if `through_layers`.
        """

        def onwards(node: Node) -> Iterable[Node]:
            ends = node in self._shortcuts or wanted(node) or (node.steps and not through_layers)
            return () if ends else following(node)

        begin = start if start_counts else [node for first in start for node in following(first)]
        return [node for node in walk(begin, onwards) if node not in self._shortcuts and wanted(node)]


def _are_nested(node: Node, softmax: Node) -> bool:
    """Return whether a node ran in the module of a softmax, or around it, since the softmax may be a module."""
    inner, outer = (f".{module}".rstrip(".") + "." for module in (softmax.module, node.module))
    return inner.startswith(outer) or outer.startswith(inner)
