"""The layers of a model in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from initbench.structure.signal_path import depths_from_input

if TYPE_CHECKING:
    from initbench.structure.run_graph import RunGraph


@dataclass(frozen=True)
class Layer:
    """A layer with a weight.

    Attributes:
        name: its module's; the weight's own name where the module has others beside it.
        kind: linear, bilinear, convolution, embedding, attention (the projections to queries, keys and values of
            `nn.MultiheadAttention`, in one weight) or recurrent.
        weight: the parameter's name; of a parametrized weight that of the largest parameter that it is made from.
        runs: how often it ran.
        depth: the number of weight layers on the longest way from an input, up to and with this one; embeddings, which
            look up, and layers that only compute a gate of what comes before are none of them.
        gains: the other parameters of the module that the weight is made from, as those of standardized weights.
        called: whether its module ran, and not only a function that was given the weight, as in some attentions.
    """

    name: str
    kind: str
    weight: str
    runs: int
    depth: int
    gains: tuple[str, ...] = ()
    called: bool = True


def find_layers(graph: RunGraph) -> list[Layer]:
    """Return the layers in the order in which they run first."""
    depths = depths_from_input(graph)
    found: dict[str, Layer] = {}
    for node in graph.nodes:
        for use in node.layers:
            if use.name in found:
                found[use.name] = replace(found[use.name], runs=found[use.name].runs + 1)
            else:
                depth = depths[node] - max(node.steps - use.step - 1, 0)
                found[use.name] = Layer(use.name, use.kind, use.weight, 1, depth, use.gains, use.name in graph.calls)
    return list(found.values())
