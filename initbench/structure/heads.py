"""Heads: the weight layers that give a model's output, such as a classifier or the head of a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.structure.run_graph import Node, RunGraph


def find_heads(graph: RunGraph, shortcuts: Mapping[Node, Node]) -> tuple[tuple[str, ...], str | None]:
    """Return the weight layers whose results reach the output without another weight layer, behind the last branch.

    Args:
        graph: of a run.
        shortcuts: the sums of residual blocks.

    Returns:
        The heads in the order in which they run, and why there are none, where there are none.
    """
    found: set[Node] = set()
    seen: set[Node] = set()
    sums: list[Node] = []
    pending = list(graph.outputs)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in shortcuts:
            sums.append(node)
        elif node.steps:
            found.add(node)
        else:
            pending += node.signals
    names = [name for node in sorted(found, key=lambda node: node.index) for name in node.last_layers]
    if names:
        return tuple(dict.fromkeys(names)), None
    if sums:
        block = sums[0].module or "the model itself"
        return (), f"no weight layer is between the last residual branch, of {block}, and the output"
    return (), "no weight layer gives the output" if graph.outputs else "the model returns no tensor"
