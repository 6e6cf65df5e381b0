"""The layers of a model in the order in which they run, and the weights that a function uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from initbench.structure.functions import MATRIX_PRODUCTS, RECURRENT, WEIGHTS, ArgumentKey
from initbench.structure.run_graph import LayerUse, Node, RunGraph, WeightAxes, depths_from_input
from initbench.structure.weight_axes import OUTPUTS_FIRST, axes_of_factor, axes_of_weight

ATTENTION = "multi_head_attention_forward"
_IN_PROJECTIONS: tuple[ArgumentKey, ...] = (5, "in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
_OUT_PROJECTION: tuple[ArgumentKey, ...] = (11, "out_proj_weight")
# Names of a layer's only weight, also under legacy weight and spectral normalization; or of an attention's inputs.
_ONLY_WEIGHT = {"weight", "weight_g", "weight_v", "weight_orig", "in_proj_weight"}


class Weights:
    """The parameters of a model, and the layers that they belong to.

    `names` maps a parameter's id to all its names; the first one represents it.
    """

    def __init__(self, model: nn.Module) -> None:
        self.names: dict[int, list[str]] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self.names.setdefault(id(parameter), []).append(name)
            self._sizes[name] = parameter.dim(), parameter.numel()
        self._aliases = {names[0]: names for names in self.names.values()}

    def is_matrix(self, name: str) -> bool:
        return self._sizes[name][0] >= 2

    def used(
        self, function: str, arguments: Mapping[ArgumentKey, Node], stack: Sequence[str], equation: str | None = None
    ) -> tuple[LayerUse, ...]:
        """Return the weights that a function uses; `stack` lists the running modules, outermost first.

        If several layers share a weight, the innermost running layer counts. `equation` is that of ``einsum``.
        """
        if function == ATTENTION:
            inputs = [n for key in _IN_PROJECTIONS for n in [arguments.get(key)] if n is not None]
            outputs = [n for key in _OUT_PROJECTION for n in [arguments.get(key)] if n is not None]
            return tuple(
                use
                for step, (kind, nodes) in enumerate((("attention", inputs), ("linear", outputs)))
                for node in nodes
                for use in self._layers(node, kind, stack, step)
            )
        if function in WEIGHTS:
            kind, keys = WEIGHTS[function]
            return tuple(
                use for key in keys if key in arguments for use in self._layers(arguments[key], kind, stack, 0)
            )
        if function in RECURRENT:
            used = [node for node in dict.fromkeys(arguments.values()) if any(map(self.is_matrix, node.parameters))]
            return tuple(use for node in used for use in self._layers(node, "recurrent", stack, 0))
        if function in MATRIX_PRODUCTS:
            operands = {key: arguments[key] for key in MATRIX_PRODUCTS[function] if key in arguments}
            weights = [(key, node) for key, node in operands.items() if node.parameters]
            if len(weights) == 1 and any(node.from_input for node in operands.values()):
                ((key, node),) = weights
                axes = axes_of_factor(function, key, node, equation) if len(node.dims) >= 2 else None
                return tuple(self._layers(node, "linear", stack, 0, axes))
        return ()

    def _layers(
        self, node: Node, kind: str, stack: Sequence[str], step: int, axes: WeightAxes | None = OUTPUTS_FIRST
    ) -> list[LayerUse]:
        """Return the layers whose weights a tensor is made from: usually one, several if it stacks their weights.

        `axes` are the tensor's.
        """
        matrices = [self._name_in(name, stack) for name in node.parameters if self.is_matrix(name)]
        owners: dict[str, list[str]] = {}
        for name in matrices:
            owners.setdefault(layer_of(name), []).append(name)
        running = [owner for owner in owners if owner in stack]
        chosen = [max(running, key=len)] if running else list(owners)
        # A parametrized weight, such as g·v/‖v‖, is made from several parameters; v is the largest.
        uses = []
        for owner in chosen:
            weight = max(owners[owner], key=lambda name: self._sizes[name][1])
            module = weight.rpartition(".")[0]
            gains = tuple(n for n in node.parameters if n != weight and n.rpartition(".")[0] == module)
            stored = axes_of_weight(weight, node, axes) if kind == "linear" else None
            uses.append(LayerUse(owner, kind, weight, step, gains, stored))
        return uses

    def _name_in(self, name: str, stack: Sequence[str]) -> str:
        """Return the parameter's name within the innermost running module that has it."""
        names = [alias for alias in self._aliases[name] if layer_of(alias) in stack]
        return max(names, key=len) if names else name


def layer_of(parameter: str) -> str:
    """Return the name of the layer that a weight belongs to: its module, if the module has no other weight."""
    owner, _, tensor = parameter.rpartition(".")
    before, parametrized, behind = f".{parameter}".rpartition(".parametrizations.")
    if parametrized:
        owner, tensor = before.removeprefix("."), behind.partition(".")[0]
    if tensor in _ONLY_WEIGHT:
        return owner
    return f"{owner}.{tensor}" if owner else tensor


@dataclass(frozen=True)
class Layer:
    """A layer with a weight.

    Attributes:
        name: the module's name, or the weight's own name if the module has other weights.
        kind: linear, bilinear, convolution, embedding, attention (the query, key and value projections of
            `nn.MultiheadAttention` in one weight) or recurrent.
        weight: the parameter's name; for a parametrized weight, the largest parameter that it is made from.
        runs: how often it ran.
        depth: the number of weight layers on the longest path from an input up to and including this one. Embeddings,
            which only look up, and layers that only compute a gate do not count.
        gains: the module's other parameters that the weight is made from, as in standardized weights.
        called: whether its module ran; false if only a function received the weight, as in some attentions.
        axes: the dimensions of a linear layer's weight; None if unknown, and for other kinds.
    """

    name: str
    kind: str
    weight: str
    runs: int
    depth: int
    gains: tuple[str, ...] = ()
    called: bool = True
    axes: WeightAxes | None = None


def find_layers(graph: RunGraph) -> list[Layer]:
    depths = depths_from_input(graph)
    layers: dict[str, Layer] = {}
    for node in graph.nodes:
        for use in node.layers:
            if use.name in layers:
                layers[use.name] = replace(layers[use.name], runs=layers[use.name].runs + 1)
            else:
                depth = depths[node] - max(node.steps - use.step - 1, 0)
                called = use.name in graph.calls
                layers[use.name] = Layer(use.name, use.kind, use.weight, 1, depth, use.gains, called, use.axes)
    return list(layers.values())
