"""Positions: position embeddings, as in vision transformers, and vectors of relative positions.

Queries are multiplied by vectors of relative positions just as by keys, so these vectors are not a layer's weight
(Shaw, Uszkoreit & Vaswani, Self-Attention with Relative Position Representations, NAACL 2018, equation (5); Srinivas et
al., Bottleneck Transformers for Visual Recognition, CVPR 2021, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from initbench.structure.functions import ADDITIONS, FACTORS, FUSED_ATTENTION, MATRIX_PRODUCTS, MOVES
from initbench.structure.run_graph import Node, RunGraph, walk

_PASSED = {
    *[*MOVES, *FACTORS, *ADDITIONS, "div"],
    *["getitem", "setitem", "item", "pad", "cat", "stack", "gather", "index_select", "as_strided", "masked_fill"],
}


def set_aside_relative_positions(graph: RunGraph) -> None:
    """Remove the layers from each product with a parameter that is added to scores, a product of two results."""
    consumers = graph.consumers()
    for node in graph.nodes:
        if node.layers and is_matrix_product(node) and _is_added_to_scores(node, consumers):
            node.layers = ()


def is_matrix_product(node: Node) -> bool:
    return node.function in MATRIX_PRODUCTS


def factors(node: Node) -> list[Node]:
    """Return the two factors of a product of two results; empty for any other node."""
    keys = () if node.layers else MATRIX_PRODUCTS.get(node.function, ())
    operands = [factor for factor in node.at(keys) if factor.from_input]
    return operands if len(operands) == 2 else []


def _is_added_to_scores(product: Node, consumers: Mapping[Node, list[Node]]) -> bool:
    """Return whether a product is added to a product of two results that then goes straight to a softmax.

    torch's function for attention adds its mask to the scores internally.
    """
    reached = {product}
    pending = list(consumers.get(product, []))
    added = False
    while pending:
        node = pending.pop()
        if node in reached:
            continue
        if added and node.function == "softmax":
            return True
        if any(mask in reached for mask in node.at((3, "attn_mask")) if node.function == FUSED_ATTENTION):
            return True
        if node.function not in _PASSED:
            continue
        if node.function in ADDITIONS:
            added = added or any(is_score(source) for source in node.signals if source not in reached)
        reached.add(node)
        pending += consumers.get(node, [])
    return False


def is_score(node: Node) -> bool:
    """Return whether a node is a product of two results, or computed from one as scores are."""
    before = walk([node], lambda current: current.signals if current.function in _PASSED else [])
    return any(factors(current) for current in before)


def find_positions(graph: RunGraph, model: nn.Module, shortcuts: Mapping[Node, Node]) -> tuple[str, ...]:
    """Return the parameters that are added to the stream on which the residual branches operate.

    Their entries differ over more than the features: a vector, whatever its shape, is a bias. Parameters added within a
    branch or to the scores of an attention do not count; nor does a class token, which is stacked with the stream or
    starts one.
    """
    names: set[str] = set()
    for node in walk(graph.outputs, lambda node: [shortcuts[node]] if node in shortcuts else node.signals):
        is_addition = node.function in ADDITIONS and node not in shortcuts
        if is_addition and len(node.signals) == 1 and not is_score(node.signals[0]):
            names.update(name for source in node.sources for name in source.parameters)
    return tuple(name for name, parameter in model.named_parameters() if name in names and _varies(parameter))


def _varies(parameter: nn.Parameter) -> bool:
    return sum(size > 1 for size in parameter.shape) > 1
