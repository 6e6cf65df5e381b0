"""Normalizations: torch's own, and modules that are written out, by what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.structure.functions import DEVIATIONS, NORMS
from initbench.structure.kinds import NORM_LAYERS, is_weight_layer
from initbench.structure.weights import layer_of

if TYPE_CHECKING:
    from torch import nn

    from initbench.structure.run_graph import RunGraph


def find_norms(graph: RunGraph, model: nn.Module) -> list[str]:
    """Return the normalizations of what depends on the input, in the order in which they run.

    One is a module that runs one of torch's functions for it, or one without weight layers and with parameters of its
    own that divides by a deviation or a root mean square. One that no module of its own runs is named by its weight.
    """
    modules = dict(model.named_modules())
    found: dict[str, None] = {}
    for node in graph.nodes:
        if not node.from_input:
            continue
        module = modules[node.module]
        if node.function in NORMS:
            parameters = [name for source in node.sources for name in source.parameters]
            alone = isinstance(module, NORM_LAYERS) or not _holds_layers(module)
            found[node.module if alone or not parameters else layer_of(parameters[0])] = None
        elif node.function in DEVIATIONS and not _holds_layers(module) and any(True for _ in module.parameters()):
            found[node.module] = None
    return list(found)


def _holds_layers(module: nn.Module) -> bool:
    return any(map(is_weight_layer, module.modules()))
