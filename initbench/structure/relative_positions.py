"""Vectors of relative positions, which queries are multiplied by as keys are: they are no layer's weight.

Source: Shaw, Uszkoreit & Vaswani, Self-Attention with Relative Position Representations, NAACL 2018, equation (5);
Srinivas et al., Bottleneck Transformers for Visual Recognition, CVPR 2021, section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.structure.functions import ADDITIONS, FACTORS, MATRIX_PRODUCTS, MOVES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.structure.run_graph import Node, RunGraph

_PASSED = {
    *MOVES,
    *FACTORS,
    *ADDITIONS,
    "getitem",
    "pad",
    "cat",
    "stack",
    "div",
    "gather",
    "index_select",
    "as_strided",
}


def set_aside_relative_positions(graph: RunGraph) -> None:
    """Take the layers from each product with a parameter that is added to a product of two results, to scores."""
    consumers = graph.consumers()
    for node in graph.nodes:
        if node.layers and is_matrix_product(node) and _is_added_to_scores(node, consumers):
            node.layers = ()


def is_matrix_product(node: Node) -> bool:
    """Return whether a node is a call of a function for a product of two matrices."""
    return node.function.lstrip("_") in MATRIX_PRODUCTS


def factors(node: Node) -> list[Node]:
    """Return the results that a product of two results has for its factors; none of another node."""
    places = () if node.layers else MATRIX_PRODUCTS.get(node.function.lstrip("_"), ())
    found = [factor for factor in node.at(places) if factor.from_input]
    return found if len(found) == 2 else []


def _is_added_to_scores(product: Node, consumers: Mapping[Node, list[Node]]) -> bool:
    """Return whether a product is added to one of two results, on a way on which nothing else is computed."""
    reached = {product}
    pending = list(consumers.get(product, []))
    while pending:
        node = pending.pop()
        if node in reached or node.function not in _PASSED:
            continue
        others = [source for source in node.signals if source not in reached]
        if node.function in ADDITIONS and any(_is_score(source) for source in others):
            return True
        reached.add(node)
        pending += consumers.get(node, [])
    return False


def _is_score(node: Node) -> bool:
    """Return whether a node is a product of two results, or a multiple of one."""
    while not factors(node):
        if node.function not in {*MOVES, *FACTORS, "div"} or len(node.signals) != 1:
            return False
        node = node.signals[0]
    return True
