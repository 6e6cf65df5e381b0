"""What a node's signal is computed from, and how many weight layers lie on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.structure.functions import FACTORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.structure.run_graph import Node, RunGraph


def signals(node: Node, depths: Mapping[Node, int], shortcuts: Mapping[Node, Node]) -> list[Node]:
    """Return what a node's signal is computed from.

    Of a product that is not what only computes a gate, of a residual block's sum its shortcut alone.

    Args:
        node: of a graph.
        depths: weight layers one after another up to and with each node; 0 for others.
        shortcuts: the sums of residual blocks, with their shortcuts.
    """
    if node in shortcuts:
        return [shortcuts[node]]
    sources = node.signals
    if node.function in FACTORS:
        least = min((depths.get(source, 0) for source in sources), default=0)
        sources = [source for source in sources if depths.get(source, 0) == least]
    return sources


def depths_from_input(graph: RunGraph) -> dict[Node, int]:
    """Return for each node the number of weight layers on the longest way from an input, up to and with the node."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        sources = signals(node, depths, {}) or node.sources
        depths[node] = max((depths[source] for source in sources), default=0) + node.steps
    return depths
