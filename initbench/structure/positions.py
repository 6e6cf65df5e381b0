"""Embeddings of positions that are parameters of their own, as those of vision transformers are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.structure.functions import ADDITIONS
from initbench.structure.relative_positions import is_score

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import nn

    from initbench.structure.run_graph import Node, RunGraph


def find_positions(graph: RunGraph, model: nn.Module, shortcuts: Mapping[Node, Node]) -> tuple[str, ...]:
    """Return the parameters that are added to the stream that residual branches start from and are added to.

    One has entries that differ over more than its features: a vector, whatever its shape, is a bias. What is added
    within a branch, or to the scores of an attention, is none; nor is a class token, which is stacked with the stream,
    or is the start of one.

    Args:
        graph: of a run.
        model: that ran.
        shortcuts: the sums of residual blocks, with their shortcuts.

    Returns:
        Their names, in the order in which they are registered.
    """
    found: set[str] = set()
    seen: set[Node] = set()
    pending = list(graph.outputs)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in shortcuts:
            pending.append(shortcuts[node])
            continue
        pending += node.signals
        if node.function in ADDITIONS and len(node.signals) == 1 and not is_score(node.signals[0]):
            found.update(name for source in node.sources for name in source.parameters)
    return tuple(name for name, parameter in model.named_parameters() if name in found and _varies(parameter))


def _varies(parameter: nn.Parameter) -> bool:
    return sum(size > 1 for size in parameter.shape) > 1
