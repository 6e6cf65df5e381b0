"""Scalar biases: single numbers that are added to a signal, as in the networks of Fixup's authors."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from initbench.structure.functions import ADDITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    holders = {around for node in graph.nodes if node.layers for around in _around(node.module)}
    found: dict[str, None] = {}
    for node in graph.nodes:
        if node.function not in ADDITIONS or not node.from_input:
            continue
        adds_alone = steps[node.module] <= graph.calls[node.module]
        for added in node.at((0, 1, "input", "other")):
            is_scalar = len(added.parameters) == 1 and math.prod(added.dims) == 1
            if is_scalar and (adds_alone or node.module in holders):
                found[added.parameters[0]] = None
    return list(found)


def _around(module: str) -> Iterator[str]:
    """Yield a module's name and those of the modules around it, of which the outermost is the model."""
    while module:
        yield module
        module = module.rpartition(".")[0]
    yield module
