"""What a node's signal is computed from, and how many weight layers lie on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.structure.functions import ADDITIONS, BOUNDED, CHOSEN, FACTORS, MOVES, SELECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.structure.run_graph import Node, RunGraph

_SCALED = {*FACTORS, *ADDITIONS, "sub", "rsub"}
_PLACED = {*MOVES, *SELECTIONS, "div"}


def signals(node: Node, depths: Mapping[Node, int], shortcuts: Mapping[Node, Node]) -> list[Node]:
    """Return what a node's signal is computed from.

    Of a product that is not a gate, of a residual block's sum its shortcut alone, of a choice not what chooses.

    A gate is a factor that a sigmoid, a softmax or the like gave and that has more or fewer layers behind it than the
    others: that of squeeze and excitation has more (Hu et al., 2018), the weights of experts have fewer (Shazeer et
    al., 2017). Both factors of a gated linear unit (Shazeer, 2020), or of a focal modulation, are signals.

    Args:
        node: of a graph.
        depths: weight layers one after another up to and with each node; 0 for others.
        shortcuts: the sums of residual blocks, with their shortcuts.
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
