"""The signal on the skip path and in the branch of each residual block, forwards and back.

What a block adds is found while the model runs: the result of the module that `initbench.structure` knows to end the
branch is followed through what scales and moves it, up to the addition to another tensor, which is the skip path.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from initbench.probes.moments import Moments
from initbench.structure.functions import ADDITIONS, FACTORS, MOVES, name_of
from initbench.structure.run_graph import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping, Sequence

    from initbench.structure.residual import ResidualBranch


class BranchSignals(TorchFunctionMode):
    """Takes the signals of residual branches while a model runs within `taken`.

    Args:
        model: any.
        branches: its residual branches, see `initbench.structure`. Those that no module ends are left out.

    Attributes:
        skip: by branch, in the order in which they are added, the moments of what a branch is added to.
        branch: of the branch.
        skip_gradient: of the part of the gradient at the block's input that came through the skip path. The block's
            input is what the branch is added to, but where a projection stands in the skip path: there it is what the
            block's module is given. See `differentiate`.
        branch_gradient: of the part that came through the branch.
    """

    def __init__(self, model: nn.Module, branches: Sequence[ResidualBranch]) -> None:
        super().__init__()
        blocks = Counter(branch.block for branch in branches)
        self._model = model
        self._ends: dict[str, str] = {
            branch.output: branch.output if blocks[branch.block] > 1 else branch.block
            for branch in branches
            if branch.output is not None
        }
        self._blocks = {self._ends[branch.output]: branch.block for branch in branches if branch.output is not None}
        self.skip: dict[str, Moments] = defaultdict(Moments)
        self.branch: dict[str, Moments] = defaultdict(Moments)
        self.skip_gradient: dict[str, Moments] = defaultdict(Moments)
        self.branch_gradient: dict[str, Moments] = defaultdict(Moments)
        self._given: MutableMapping[Tensor, str] = WeakIdKeyDictionary()
        self._inputs: dict[str, GradientEdge] = {}  # of the blocks' modules
        self._sums: dict[str, tuple[GradientEdge | None, GradientEdge | None]] = {}
        self._gradients: dict[str, Tensor] = {}  # by branch, at the sum
        self._is_taking = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the signals of what runs within this."""
        modules = dict(self._model.named_modules())
        hooks = [modules[output].register_forward_hook(self._follow(name)) for output, name in self._ends.items()]
        hooks += [modules[b].register_forward_pre_hook(self._enter(b)) for b in dict.fromkeys(self._blocks.values())]
        self._is_taking = True
        try:
            with self:
                yield
        finally:
            self._is_taking = False
            for hook in hooks:
                hook.remove()

    def differentiate(self) -> None:
        """Take the gradients through both paths of each block, after a backward pass that kept the graph.

        Together the blocks take at most another backward pass, without the gradients of parameters.
        """
        gradients, self._gradients = self._gradients, {}
        for name, gradient in gradients.items():
            skip, branch = self._sums[name]
            through = self._through(skip, branch, gradient, self._inputs.get(self._blocks[name]))
            if through is not None:
                self.skip_gradient[name].add(through[0])
                self.branch_gradient[name].add(through[1])
        self._sums, self._inputs = {}, {}

    def root_mean_squares(self, moments: Mapping[str, Moments]) -> dict[str, float]:
        """Return the root mean squares of gradients in the order in which branches are added."""
        return {name: math.sqrt(moments[name].mean_square) for name in self.skip if name in moments}

    @staticmethod
    def _through(
        skip: GradientEdge | None, branch: GradientEdge | None, gradient: Tensor, given: GradientEdge | None
    ) -> tuple[Tensor, Tensor] | None:
        if skip is None or branch is None:
            return None
        [own] = _products(branch, skip, gradient)
        if own is not None:  # the skip path is the identity
            return gradient, own
        if given is None:
            return None
        [own], [past] = _products(branch, given, gradient), _products(skip, given, gradient)
        return None if own is None or past is None else (past, own)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function; look at it where it adds what a branch gave, follow it where it scales or moves that."""
        options = options or {}
        kind = name_of(function)
        adds = kind in ADDITIONS
        operands = tensors_in((arguments, options)) if adds or kind in MOVES or kind in FACTORS else []
        names = [self._given[tensor] for tensor in operands if tensor in self._given]
        if not names:
            return function(*arguments, **options)
        if not adds or len(operands) != 2 or len(names) != 1:
            result = function(*arguments, **options)
            if torch.is_tensor(result) and not adds:
                self._given[result] = names[0]
            return result
        name = names[0]
        skip, branch = sorted(operands, key=lambda tensor: tensor in self._given)
        self.skip[name].add(skip)
        self.branch[name].add(branch)
        # Edges and not tensors: into these the addition, or the next activation, may write.
        self._sums[name] = _edge(skip), _edge(branch)
        del self._given[branch]
        result = function(*arguments, **options)
        if result.requires_grad:
            result.register_hook(partial(self._note, name))
        return result

    def _note(self, name: str, gradient: Tensor) -> None:
        if self._is_taking:
            self._gradients[name] = gradient

    def _follow(self, name: str) -> Any:
        def follow(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if torch.is_tensor(output):
                self._given[output] = name

        return follow

    def _enter(self, block: str) -> Any:
        def enter(_module: nn.Module, inputs: Any) -> None:
            edge = _edge(inputs[0]) if inputs and torch.is_tensor(inputs[0]) else None
            if edge is not None:
                self._inputs[block] = edge

        return enter


def _edge(tensor: Tensor) -> GradientEdge | None:
    return get_gradient_edge(tensor) if tensor.requires_grad else None


def _products(of: GradientEdge, at: GradientEdge, gradient: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradient at an edge that comes through another one alone, None where no way leads there."""
    found: tuple[Tensor | None, ...] = torch.autograd.grad(of, at, gradient, retain_graph=True, allow_unused=True)
    return found
