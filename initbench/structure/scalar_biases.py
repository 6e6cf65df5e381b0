"""Scalar biases: single numbers that are added to a signal, as in the networks of Fixup's authors."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from initbench.structure.functions import ADDITIONS

if TYPE_CHECKING:
    from initbench.structure.run_graph import RunGraph


def find_scalar_biases(graph: RunGraph) -> list[str]:
    """Return the parameters of one number that are added to what depends on the input, in the order of their use.

    They may be a module's of its own or stand beside weight layers. The shift of an activation that is written out,
    such as that of StarReLU (Yu et al., MetaFormer Baselines for Vision, 2023), is none: its module holds no weight
    layer and does more than add.

    Args:
        graph: of a run.
    """
    steps = Counter(node.module for node in graph.nodes if node.from_input)
    layers = [f"{node.module}." for node in graph.nodes if node.layers]
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.function not in ADDITIONS or not node.from_input:
            continue
        within = f"{node.module}." if node.module else ""
        if steps[node.module] > graph.calls[node.module] and not any(layer.startswith(within) for layer in layers):
            continue
        for added in node.at((0, 1, "input", "other")):
            if len(added.parameters) == 1 and math.prod(added.dims) == 1:
                found[added.parameters[0]] = None
    return list(found)
