"""Residual branches in the graph of a run.

If two tensors with a common origin are added, the side with more consecutive weight layers is the branch. The other is
its shortcut: the identity, one weight layer, or several that form one linear map, a projection, with at most half as
many layers as the branch (GhostNet's shortcut is a depthwise and a pointwise convolution). Two equal sides, as in
parallel convolutions, are not a residual branch. Nor are two networks of different depth with activations, because
neither is just a shortcut, or two attentions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from torch import nn

from initbench.structure.functions import ADDITIONS, CHOSEN, FACTORS, FUSED_ATTENTION, LINEAR, MOVES, NORMS, SELECTIONS
from initbench.structure.positions import factors
from initbench.structure.run_graph import Node, RunGraph, signals


@dataclass
class Side:
    """One of the two summands of an addition, and the nodes between it and the common origin of both.

    `depths` is the number of consecutive weight layers up to and including each node.
    """

    operand: Node
    start: Node
    nodes: list[Node]
    shortcuts: Mapping[Node, Node]
    depths: dict[Node, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            before = max((self.depths.get(source, 0) for source in self.signals(node)), default=0)
            self.depths[node] = before + node.steps

    @property
    def depth(self) -> int:
        """Consecutive weight layers from the common origin to the operand."""
        return self.depths.get(self.operand, 0)

    def signals(self, node: Node) -> list[Node]:
        return signals(node, self.depths, self.shortcuts)

    def behind(self, start: Node) -> set[Node]:
        """Return the side's nodes that depend on a node."""
        dependents = {start}
        for node in self.nodes:
            if dependents & set(node.sources):
                dependents.add(node)
        return dependents - {start}

    def stream(self) -> set[Node]:
        """Return the side's nodes except those in branches that are added to it."""
        stream: set[Node] = set()
        pending = [self.operand]
        while pending:
            node = pending.pop()
            if node in self.depths and node not in stream:
                stream.add(node)
                pending += [self.shortcuts[node]] if node in self.shortcuts else node.sources
        return stream

    def ends(self, start: Iterable[Node]) -> tuple[list[Node], list[Node]]:
        """Return the nearest nodes with weight layers before some nodes, and the nodes passed on the way."""
        ends: list[Node] = []
        passed: list[Node] = []
        pending = [node for node in start if node in self.depths]
        while pending:
            node = pending.pop()
            if node in passed or node in ends:
                continue
            if node.steps:
                ends.append(node)
                continue
            passed.append(node)
            pending += [source for source in self.signals(node) if source in self.depths]
        return ends, passed

    def layers(self) -> tuple[str, ...]:
        """Return the weight layers, except those that only compute a gate, in the order in which they run."""
        pending = self.ends([self.operand])[0]
        layers = list(pending)
        while pending:
            pending = self.ends([source for node in pending for source in self.signals(node)])[0]
            pending = [node for node in pending if node not in layers]
            layers += pending
        return tuple(use.name for node in sorted(layers, key=lambda node: node.index) for use in node.layers)


def find_sides(graph: RunGraph, first: Node, second: Node, shortcuts: Mapping[Node, Node]) -> tuple[Side, Side] | None:
    """Return both sides of an addition, or None if its operands have no common origin.

    Nodes are visited from the last to the first, so that all consumers of a node are known when it is visited.
    """
    leads = {first: 1, second: 2}
    heap = sorted((-node.index, node.index) for node in leads)
    nodes: dict[int, list[Node]] = {1: [], 2: []}
    while heap:
        node = graph.nodes[heappop(heap)[1]]
        if leads[node] == 3:
            if node.results > 1:
                return None
            return Side(first, node, nodes[1][::-1], shortcuts), Side(second, node, nodes[2][::-1], shortcuts)
        nodes[leads[node]].append(node)
        for source in node.sources:
            if not source.from_input and source not in (first, second):
                continue
            if source not in leads:
                heappush(heap, (-source.index, source.index))
            leads[source] = leads.get(source, 0) | leads[node]
    return None


@dataclass(frozen=True)
class ResidualBranch:
    """A residual branch; modules and parameters are given by their names in the model.

    Attributes:
        block: the module whose forward pass adds the branch to its shortcut.
        inner: the branch's weight layers except the last, in the order in which they run. Layers that only compute a
            gate, as in squeeze and excitation, do not count.
        ends: the last weight layers: one, or several if the branch adds or stacks their outputs.
        depth: the number m of weight layers on the longest path through the branch.
        gates: parameters that multiply the branch after its last weight layer, such as LayerScale's; a norm's do not
            count.
        output: the outermost module that returns the branch's result and is called once; None if there is none.
        shortcut: the weight layers of the shortcut; empty for the identity.
        follows: the origin of the tensor that the branch is added to: the ends of the previous branch, or for the first
            branch the weight layers that produce it. Convolutions over several positions, as between stages, and
            embeddings are skipped.
        parameters: all parameters that the branch reads, in the order in which they are first used.
        scales: whether the branch's result is a linear map of the outputs of `ends`, without a norm, bias, activation
            or gate computed from the input behind them.
        linear_factors: the layers whose outputs are a factor of a product of two signals without an activation in
            between, such as the up projection of a gated linear unit (Shazeer, GLU Variants Improve Transformer, 2020).
        norm: the normalization that alone receives the sum, as in post-norm networks; None if there is none.
    """

    block: str
    inner: tuple[str, ...]
    ends: tuple[str, ...]
    depth: int
    gates: tuple[str, ...] = ()
    output: str | None = None
    shortcut: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    parameters: tuple[str, ...] = field(default=(), compare=False, repr=False)
    scales: bool = field(default=True, compare=False, repr=False)
    linear_factors: tuple[str, ...] = field(default=(), compare=False, repr=False)
    norm: str | None = field(default=None, compare=False, repr=False)

    @property
    def stage(self) -> str:
        """The module that contains the block."""
        return self.block.rpartition(".")[0]


@dataclass(frozen=True)
class Branches:
    """The residual branches, in the order in which they are added, and each addition with its shortcut."""

    branches: list[ResidualBranch]
    shortcuts: dict[Node, Node]


def residual_branches(graph: RunGraph, norms: frozenset[str] = frozenset()) -> Branches:
    """Return the residual branches.

    A global skip over several blocks is another branch if it spans weight layers outside the blocks. Arms, that is,
    single layers in parallel that are added to one normalized tensor as in reparametrizable blocks (Vasu et al.,
    MobileOne, 2023), are no branches of their own within another branch, as in FastViT and GhostNetV3.
    """
    finder = _Finder(graph, norms)
    if finder.arms:
        branches = _Finder(graph, norms, finder.arms).branches
        within = {layer for branch in branches for layer in (*branch.inner, *branch.ends)}
        inside = {arm for arm, layers in finder.arms.items() if within.issuperset(layers)}
        finder = _Finder(graph, norms, inside)
    return Branches(finder.branches, finder.shortcuts)


class _Finder:
    def __init__(self, graph: RunGraph, norms: frozenset[str], skipped: Collection[Node] = ()) -> None:
        """Look at all additions except those in `skipped`."""
        self._graph, self._norms = graph, norms
        self._consumers = graph.consumers()
        self.shortcuts: dict[Node, Node] = {}
        self._ends: dict[Node, tuple[str, ...]] = {}  # ends of the branch that each sum adds
        self._starts: dict[Node, Node] = {}  # where a branch of a single layer starts, by its sum
        self.arms: dict[Node, tuple[str, ...]] = {}  # sums of arms, with the layers of the arm
        self.branches: list[ResidualBranch] = []
        for node in graph.nodes:
            if node.function in ADDITIONS and node not in skipped:
                self._look_at(node)

    def _look_at(self, addition: Node) -> None:
        operands = [operand for operand in addition.at((0, 1, "input", "other")) if self._may_be_shortcut(operand)]
        if len(operands) != 2 or operands[0] is operands[1] or not any(operand.from_input for operand in operands):
            return
        if any(_is_chosen(operand) for operand in operands):
            return
        sides = find_sides(self._graph, operands[0], operands[1], self.shortcuts)
        if sides is None:
            return
        shortcut, branch = sorted(sides, key=lambda side: side.depth)
        deeper = branch.depth > shortcut.depth and branch.operand.from_input
        # If the layers are on another path, as for keys that multiply queries, the signal does not pass through them.
        through = any(node.steps for node in branch.behind(branch.start))
        if deeper and through and self._is_shortcut(shortcut, branch):
            self.shortcuts[addition] = shortcut.operand
            self.branches.append(self._branch(addition, branch, shortcut))
            self._ends[addition] = self.branches[-1].ends
            self._note_arms(addition, branch, shortcut)

    def _note_arms(self, addition: Node, branch: Side, shortcut: Side) -> None:
        if branch.depth == 1:
            self._starts[addition] = branch.start
            if self._starts.get(shortcut.operand) is branch.start:
                self.arms |= {node: self._ends[node] for node in (shortcut.operand, addition)}

    def _may_be_shortcut(self, operand: Node) -> bool:
        """Return whether a tensor depends on the input, or starts a stream as a class-attention token does.

        Such a token is added to once; positions are added again and again.
        """
        additions = [node for node in self._consumers.get(operand, []) if node.function in ADDITIONS]
        return operand.from_input or len(additions) == 1

    def _is_shortcut(self, shortcut: Side, branch: Side) -> bool:
        """Return whether a side is the identity or a projection, not an attention or a second network.

        A side with residual blocks is a second network, as where streams of several resolutions are added (Wang et al.,
        Deep High-Resolution Representation Learning, 2020), unless these are parallel branches with the same start.
        """
        if any(_mixes(node) for node in shortcut.stream()):
            return False
        within = shortcut.behind(shortcut.start)
        # Parallel branches may add to the tensor before a norm that both start from.
        if any(self._origin(node) in within for node in within if node in self.shortcuts):
            return False
        if shortcut.depth <= 1:
            return True
        first = next(node for node in shortcut.nodes if node.steps)
        is_linear = all(node.function in LINEAR for node in shortcut.behind(first))
        return is_linear and 2 * shortcut.depth <= branch.depth

    def _origin(self, node: Node) -> Node:
        """Return the tensor that a sum's residual branches are added to, before any linear nodes without weights."""
        while True:
            if node in self.shortcuts:
                node = self.shortcuts[node]
            elif node.function in LINEAR and not node.steps and len(node.signals) == 1:
                node = node.signals[0]
            else:
                return node

    def _follows(self, shortcut: Side) -> tuple[str, ...]:
        """Return the origin of the shortcut, see `ResidualBranch.follows`."""
        origins: list[str] = []
        seen: set[Node] = set()
        pending = [shortcut.operand]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self._ends:
                origins += self._ends[node]
            elif node.steps and node not in shortcut.depths and not _is_convolution_over_positions(node):
                origins += node.last_layers
            else:
                pending += node.signals
        return tuple(dict.fromkeys(origins))

    def _branch(self, addition: Node, side: Side, other: Side) -> ResidualBranch:
        ends, behind = side.ends([side.operand])
        last = list(dict.fromkeys(n for node in sorted(ends, key=lambda node: node.index) for n in node.last_layers))
        return ResidualBranch(
            addition.module,
            tuple(name for name in side.layers() if name not in last),
            tuple(last),
            side.depth,
            tuple(dict.fromkeys(self._gates(behind))),
            self._output(addition, side.operand) or self._end(last, behind),
            other.layers(),
            self._follows(other),
            tuple(dict.fromkeys(n for node in side.nodes for source in node.sources for n in source.parameters)),
            all(map(_is_linear, behind)),
            tuple(dict.fromkeys(_linear_factors(side))),
            self._norm_after(addition),
        )

    def _norm_after(self, addition: Node) -> str | None:
        receivers = {node.module for node in self._consumers.get(addition, [])}
        return receivers.pop() if len(receivers) == 1 and receivers <= self._norms else None

    def _gates(self, behind: list[Node]) -> Iterator[str]:
        """Yield the parameters that nodes multiply by, leaving out norms."""
        for node in behind:
            if node.module not in self._norms:
                yield from (name for factor in node.at(FACTORS.get(node.function, ())) for name in factor.parameters)

    def _output(self, addition: Node, operand: Node) -> str | None:
        """Return the outermost module within the block that returned the branch's result and is called once."""
        within = f"{addition.module}." if addition.module else ""
        for returned in reversed(self._graph.returned.get(operand, [])):
            once = self._graph.calls[returned.module] == 1
            if returned.module.startswith(within) and returned.module and returned.nodes <= addition.index and once:
                return returned.module
            if returned.passed:  # such as a drop path shared by two branches: the modules before it gave another result
                return None
        return None

    def _end(self, ends: list[str], behind: list[Node]) -> str | None:
        """Return the last weight layer if it is the only one, runs once, and the branch scales with its output."""
        scales = all(node.function in MOVES or node.function in FACTORS for node in behind)
        return ends[0] if scales and len(ends) == 1 and self._graph.calls.get(ends[0]) == 1 else None


def _mixes(node: Node) -> bool:
    """Return whether a node is a product of two results, as in attention or focal modulation."""
    gated = node.function in FACTORS and len(node.signals) > 1
    return gated or bool(factors(node)) or node.function == FUSED_ATTENTION


def _linear_factors(side: Side) -> Iterator[str]:
    """Yield the layers of `ResidualBranch.linear_factors`; torch's glu multiplies one half of its input.

    A tensor times a function of itself is an activation, such as GELU written out, unless they are parts of the tensor.
    """
    for node in side.nodes:
        multiplied = side.signals(node)
        if node.function != "glu" and (node.function not in FACTORS or len(multiplied) < 2):
            continue
        ends = {factor: side.ends([factor]) for factor in multiplied}
        for factor, (layers, passed) in ends.items():
            others = {layer for other in multiplied if other is not factor for layer in ends[other][0]}
            is_apart = others.isdisjoint(layers) or any(before.function in SELECTIONS for before in passed)
            if is_apart and all(map(_is_linear, passed)):
                yield from (name for layer in layers for name in layer.last_layers)


def _is_linear(node: Node) -> bool:
    """Return whether a node without weights is a linear map of its sources that depend on the input."""
    if node.function in FACTORS:
        return len(node.signals) == 1
    if node.function in ADDITIONS:
        return len(node.signals) == len(node.sources)
    return node.function in LINEAR and node.function not in NORMS


def _is_convolution_over_positions(node: Node) -> bool:
    """Return whether a node is a convolution with more than one tap."""
    kernels = [weight.dims[2:] for use in node.layers if use.kind == "convolution" for weight in node.at((1, "weight"))]
    return any(size > 1 for kernel in kernels for size in kernel)


def _is_chosen(node: Node) -> bool:
    """Return whether a tensor is a selection of parameter values, such as the biases of experts."""
    while node.function in MOVES and len(node.signals) == 1:
        node = node.signals[0]
    return node.function in CHOSEN and node.from_input and not signals(node, {}, {})


def scalar_gate(model: nn.Module, branch: ResidualBranch) -> str | None:
    """Return the name of the first of a branch's gates that is a single number.

    Such gates are the multipliers of Fixup (Zhang, Dauphin & Ma, 2019) and SkipInit (De & Smith, 2020), also those that
    timm's NF-ResNets have by themselves.
    """
    return next((gate for gate in branch.gates if model.get_parameter(gate).numel() == 1), None)
