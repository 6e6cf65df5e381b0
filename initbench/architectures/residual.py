"""Residual branches, found in any model whose forward pass `torch.fx` can trace.

Where two tensors are added that come from one, the side with more weight layers one after another is the branch, the
other one its shortcut, which is the identity or holds one weight layer, a projection. Two sides alike, as in parallel
convolutions, are no residual branch.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import torch
from torch import fx, nn

from initbench.architectures.layers import WEIGHT_LAYERS
from initbench.architectures.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDITIONS = {operator.add, operator.iadd, torch.add, "add", "add_"}
_PRODUCTS = {operator.mul, operator.imul, torch.mul, "mul", "mul_"}
_SIZES = {"size", "dim", "numel"}
_TUPLES = {torch.split, torch.chunk, torch.unbind, "split", "chunk", "unbind"}
# What only moves entries: the multiple of an input gives the multiple of the output.
_MOVES = {"transpose", "permute", "reshape", "view", "flatten", "unflatten", "contiguous", "roll", torch.roll}


@dataclass(frozen=True)
class ResidualBranch:
    """A residual branch; modules and parameters are given by their names in the model.

    Attributes:
        block: the module whose forward pass adds the branch to its shortcut.
        inner: the branch's weight layers but for its last, in the order in which they run. Layers that only compute a
            gate, as in squeeze and excitation, are none of the branch's.
        ends: the last ones; one, but where a branch adds or stacks the outputs of several.
        depth: the number m of weight layers on the longest way through the branch.
        gates: parameters by which the branch is multiplied behind its last weight layer, such as a LayerScale's.
        output: the outermost module that gives the branch's result and is called once; None where there is none.
    """

    block: str
    inner: tuple[str, ...]
    ends: tuple[str, ...]
    depth: int
    gates: tuple[str, ...] = ()
    output: str | None = None

    @property
    def stage(self) -> str:
        """The module that holds the block."""
        return self.block.rpartition(".")[0]


def residual_branches(model: nn.Module) -> list[ResidualBranch]:
    """Return the model's residual branches in the order in which they are added.

    A global skip over several blocks is one more branch if there are weight layers beside the blocks' own.

    Raises:
        ValueError: the forward pass cannot be traced, for example because it depends on the values of its input.
    """
    try:
        trace = Trace(model)
    except ValueError as error:
        raise ValueError(f"no residual branches can be looked for: {error}") from error
    return _Finder(trace).branches


@dataclass
class _Side:
    """One of the two tensors of an addition, and what lies between it and where both come from.

    Attributes:
        operand: the tensor.
        nodes: in the order in which they run.
        depths: weight layers one after another, up to and with each node.
    """

    operand: fx.Node
    nodes: list[fx.Node]
    depths: dict[fx.Node, int] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        return self.depths.get(self.operand, 0)


class _Finder:
    """Looks for residual branches in a graph."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._modules = trace, trace.modules
        self._order = {node: index for index, node in enumerate(trace.graph.nodes)}
        self._shortcuts: dict[fx.Node, fx.Node] = {}
        self._data: set[fx.Node] = set()  # what depends on the values of the input
        self._sizes: set[fx.Node] = set()  # what depends on the sizes of tensors alone
        self.branches: list[ResidualBranch] = []
        for node in trace.graph.nodes:
            sources = set(node.all_input_nodes)
            if _is_size(node) or (sources and sources <= self._sizes):
                self._sizes.add(node)
            elif node.op == "placeholder" or self._data & sources:
                self._data.add(node)
            if node.op in {"call_function", "call_method"} and node.target in _ADDITIONS:
                self._look_at(node)

    def _look_at(self, addition: fx.Node) -> None:
        operands = [argument for argument in addition.args[:2] if isinstance(argument, fx.Node)]
        sides = self._sides(*operands) if len(operands) == 2 and operands[0] is not operands[1] else None
        if sides is None:
            return
        shortcut, branch = sorted(sides, key=lambda side: side.depth)
        if branch.depth > shortcut.depth <= 1 and branch.operand in self._data:
            self._shortcuts[addition] = shortcut.operand
            self.branches.append(self._branch(addition, branch))

    def _sides(self, first: fx.Node, second: fx.Node) -> tuple[_Side, _Side] | None:
        """Return both sides, None where they come from no common tensor.

        Nodes are visited from the last to the first, so that what leads to a node is known when it is visited.
        """
        leads = {first: 1, second: 2}
        heap = sorted((-self._order[node], node) for node in leads)
        nodes: dict[int, list[fx.Node]] = {1: [], 2: []}
        while heap:
            node = heappop(heap)[1]
            if leads[node] == 3:
                if node.target in _TUPLES:
                    return None
                sides = _Side(first, nodes[1][::-1]), _Side(second, nodes[2][::-1])
                for side in sides:
                    self._count(side)
                return sides
            nodes[leads[node]].append(node)
            for source in node.all_input_nodes:
                if source.op == "get_attr" or source in self._sizes:
                    continue  # neither a parameter nor a size that both sides use is an input of both
                if source not in leads:
                    heappush(heap, (-self._order[source], source))
                leads[source] = leads.get(source, 0) | leads[node]
        return None

    def _count(self, side: _Side) -> None:
        for node in side.nodes:
            before = max((side.depths.get(source, 0) for source in self._signals(side, node)), default=0)
            side.depths[node] = before + len(self._layers(node))

    def _signals(self, side: _Side, node: fx.Node) -> list[fx.Node]:
        """Return what a node's signal is computed from: of a product not what only computes a gate."""
        sources = self._sources(node)
        if node.target in _PRODUCTS:
            least = min((side.depths.get(source, 0) for source in sources), default=0)
            sources = [source for source in sources if side.depths.get(source, 0) == least]
        return sources

    def _sources(self, node: fx.Node) -> list[fx.Node]:
        """Return what a node is computed from; of a block's sum its shortcut alone."""
        if node in self._shortcuts:
            return [self._shortcuts[node]]
        return [source for source in node.all_input_nodes if source in self._data]

    def _layers(self, node: fx.Node) -> list[str]:
        """Return the weight layers of a node, one after another: its module, or those whose weights a function uses."""
        if node.op == "call_module":
            name = str(node.target)
            if isinstance(self._modules[name], nn.MultiheadAttention):
                return [name, f"{name}.out_proj"]  # the projections of its inputs, and that of its output
            return [name] * isinstance(self._modules[name], WEIGHT_LAYERS)
        used = [str(source.target) for source in node.all_input_nodes if source.op in {"get_attr", "call_module"}]
        owners = [name.removesuffix(".weight").removesuffix(".parametrizations") for name in used if "weight" in name]
        return [name for name in owners if isinstance(self._modules.get(name), WEIGHT_LAYERS)]

    def _branch(self, addition: fx.Node, side: _Side) -> ResidualBranch:
        ends, behind = self._walk(side, [side.operand])
        layers, pending = list(ends), ends
        while pending:
            pending = self._walk(side, [source for node in pending for source in self._sources(node)])[0]
            pending = [node for node in pending if node not in layers]
            layers += pending
        names = [name for node in sorted(layers, key=self._order.__getitem__) for name in self._layers(node)]
        last = [self._layers(node)[-1] for node in sorted(ends, key=self._order.__getitem__)]
        block = self._trace.inside[addition]
        return ResidualBranch(
            block,
            tuple(name for name in names if name not in last),
            tuple(last),
            side.depth,
            tuple(self._gates(behind)),
            self._output(side.operand, block) or self._end(last, behind),
        )

    def _walk(self, side: _Side, start: list[fx.Node]) -> tuple[list[fx.Node], list[fx.Node]]:
        """Return the first nodes with weight layers back from some nodes, and what lies before them."""
        found: list[fx.Node] = []
        passed: list[fx.Node] = []
        pending = [node for node in start if node in side.depths]
        while pending:
            node = pending.pop()
            if node in passed or node in found:
                continue
            if self._layers(node):
                found.append(node)
                continue
            passed.append(node)
            pending += [source for source in self._signals(side, node) if source in side.depths]
        return found, passed

    def _gates(self, behind: list[fx.Node]) -> Iterator[str]:
        for node in behind:
            if node.op == "call_module":
                module = self._modules[str(node.target)]
                own = [name for name, _ in module.named_parameters()]
                # timm's and torchvision's classes of this name, and the multiplier of our schemes.
                if type(module).__name__.startswith(("LayerScale", "ScalarMultiplier")) and len(own) == 1:
                    yield f"{node.target}.{own[0]}"
            elif node.target in _PRODUCTS:
                yield from (name for source in node.all_input_nodes for name in _parameter(source))

    def _output(self, operand: fx.Node, block: str) -> str | None:
        """Return the outermost module within the block that gave the branch's result and is called once."""
        for name in reversed(self._trace.returned.get(operand, [])):
            if name.startswith(f"{block}." if block else "") and self._trace.calls[name] == 1:
                return name
        return None

    def _end(self, ends: list[str], behind: list[fx.Node]) -> str | None:
        """Return the last weight layer, if it is one, called once, and what is behind it scales with its output."""
        scales = all(node.target in _MOVES | _PRODUCTS or self._drops(node) for node in behind)
        return ends[0] if scales and len(ends) == 1 and self._trace.calls.get(ends[0]) == 1 else None

    def _drops(self, node: fx.Node) -> bool:
        module = self._modules[str(node.target)] if node.op == "call_module" else None
        return isinstance(module, nn.Identity) or type(module).__name__.startswith(
            ("Identity", "Drop", "StochasticDepth")
        )


def _is_size(node: fx.Node) -> bool:
    """Return whether a node gives a size of a tensor, which does not depend on its values."""
    return node.target in _SIZES or (node.target is getattr and node.args[1] in {"shape", "ndim", "device", "dtype"})


def _parameter(node: fx.Node) -> Iterator[str]:
    """Yield the parameter of which a node is a view."""
    while node.op in {"call_method", "call_function"} and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    if node.op == "get_attr":
        yield str(node.target)
