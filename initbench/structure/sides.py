"""The two sides of an addition: what lies between its operands and the tensor that both come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from initbench.structure.signal_path import signals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.structure.run_graph import Node, RunGraph


@dataclass
class Side:
    """One of the two tensors of an addition, and what lies between it and where both come from.

    Attributes:
        operand: the tensor.
        start: where both come from.
        nodes: in the order in which they run.
        shortcuts: the sums of residual blocks that are known so far, with their shortcuts.
        depths: weight layers one after another, up to and with each node.
    """

    operand: Node
    start: Node
    nodes: list[Node]
    shortcuts: Mapping[Node, Node]
    depths: dict[Node, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            before = max((self.depths.get(source, 0) for source in self.signals(node)), default=0)
            self.depths[node] = before + node.steps

    @property
    def depth(self) -> int:
        """Weight layers one after another, from where both come from to the operand."""
        return self.depths.get(self.operand, 0)

    def signals(self, node: Node) -> list[Node]:
        """Return what a node's signal is computed from, see `signal_path.signals`."""
        return signals(node, self.depths, self.shortcuts)

    def behind(self, start: Node) -> set[Node]:
        """Return the nodes of the side that depend on a node."""
        found = {start}
        for node in self.nodes:
            if found & set(node.sources):
                found.add(node)
        return found - {start}

    def stream(self) -> set[Node]:
        """Return the nodes of the side without those of the branches that are added to it."""
        found: set[Node] = set()
        pending = [self.operand]
        while pending:
            node = pending.pop()
            if node in self.depths and node not in found:
                found.add(node)
                pending += [self.shortcuts[node]] if node in self.shortcuts else node.sources
        return found

    def ends(self, start: Iterable[Node]) -> tuple[list[Node], list[Node]]:
        """Return the first nodes with weight layers back from some nodes, and what lies before them."""
        found: list[Node] = []
        passed: list[Node] = []
        pending = [node for node in start if node in self.depths]
        while pending:
            node = pending.pop()
            if node in passed or node in found:
                continue
            if node.steps:
                found.append(node)
                continue
            passed.append(node)
            pending += [source for source in self.signals(node) if source in self.depths]
        return found, passed

    def layers(self) -> tuple[str, ...]:
        """Return the weight layers, those that only compute a gate aside, in the order in which they run."""
        pending = self.ends([self.operand])[0]
        layers = list(pending)
        while pending:
            pending = self.ends([source for node in pending for source in self.signals(node)])[0]
            pending = [node for node in pending if node not in layers]
            layers += pending
        return tuple(use.name for node in sorted(layers, key=lambda node: node.index) for use in node.layers)


def find_sides(graph: RunGraph, first: Node, second: Node, shortcuts: Mapping[Node, Node]) -> tuple[Side, Side] | None:
    """Return both sides of an addition, None where its operands come from no common tensor.

    Nodes are visited from the last to the first, so that what leads to a node is known when it is visited.

    Args:
        graph: of a run.
        first: an operand.
        second: the other one.
        shortcuts: the sums of residual blocks that are known so far, with their shortcuts.
    """
    leads = {first: 1, second: 2}
    heap = sorted((-node.index, node.index) for node in leads)
    nodes: dict[int, list[Node]] = {1: [], 2: []}
    while heap:
        node = graph.nodes[heappop(heap)[1]]
        if leads[node] == 3:
            if node.results > 1:
                return None
            return Side(first, node, nodes[1][::-1], shortcuts), Side(second, node, nodes[2][::-1], shortcuts)
        nodes[leads[node]].append(node)
        for source in node.sources:
            if not source.from_input and source not in (first, second):
                continue
            if source not in leads:
                heappush(heap, (-source.index, source.index))
            leads[source] = leads.get(source, 0) | leads[node]
    return None
