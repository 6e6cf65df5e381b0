"""The size of the signal in every layer, forward and backward, and on both paths of residual blocks.

A block's branch is found while the model runs: the result of the module that ends the branch (see
`initbench.structure`) is followed through scaling and moving operations up to its addition to another tensor, the skip
path.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from initbench.arguments import check_counts
from initbench.differentiation.gradients import backward
from initbench.models.batches import move, reference_parameter, zero_inputs
from initbench.models.calls import mean_loss
from initbench.models.state import forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer
from initbench.registry import register_probe
from initbench.registry.traits import DataKind
from initbench.structure.find import find_structure
from initbench.structure.functions import ADDITIONS, FACTORS, MOVES, name_of
from initbench.structure.residual import ResidualBranch
from initbench.structure.run_graph import tensors_in


@dataclass
class Moments:
    """The number of entries of several tensors together, and the sums of these and of their squares in float64."""

    entries: int = 0
    samples: int = 0
    total: Tensor | float = 0.0
    squares: Tensor | float = 0.0

    def add(self, tensor: Tensor, samples: int = 0) -> None:
        """Add the entries of some samples, in float64 because squares of large float32 numbers overflow; nothing waits.

        Where the number of samples is not needed, it is left out.
        """
        wide = tensor.detach().double()
        self.entries += tensor.numel()
        self.samples += samples
        self.total = self.total + wide.sum()
        self.squares = self.squares + wide.square().sum()

    @property
    def mean_square(self) -> float:
        return float(self.squares) / self.entries

    @property
    def squared_norm(self) -> float:
        """The mean over samples of each sample's sum of squares."""
        return float(self.squares) / self.samples

    @property
    def deviation(self) -> float:
        """The population's standard deviation over units and samples."""
        mean = float(self.total) / self.entries
        return math.sqrt(max(self.mean_square - mean**2, 0.0))


class BranchSignals(TorchFunctionMode):
    """Measures the signals of residual branches while a model runs within `taken`.

    Branches that no module ends are left out. All moments are by branch, in the order in which they are added.

    Attributes:
        skip: of the tensor that the branch is added to.
        branch: of the branch itself.
        skip_gradient: of the part of the gradient at the block's input that came through the skip path. The block's
            input is the tensor that the branch is added to; if the skip path has a projection, it is the input of the
            block's module. See `differentiate`.
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
        """Compute the gradients through both paths of each block, after a backward pass that kept the graph.

        All blocks together take at most one more backward pass, without the gradients of parameters.
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
        return {name: math.sqrt(moments[name].mean_square) for name in self.skip if name in moments}

    @staticmethod
    def _through(
        skip: GradientEdge | None, branch: GradientEdge | None, gradient: Tensor, given: GradientEdge | None
    ) -> tuple[Tensor, Tensor] | None:
        if skip is None or branch is None:
            return None
        [branch_gradient] = _products(branch, skip, gradient)
        if branch_gradient is not None:  # the skip path is the identity
            return gradient, branch_gradient
        if given is None:
            return None
        [branch_gradient], [past] = _products(branch, given, gradient), _products(skip, given, gradient)
        return None if branch_gradient is None or past is None else (past, branch_gradient)

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function; follow a branch through scaling and moving operations and record its addition."""
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
        # Edges and not tensors, because the addition or the next activation may write into the tensors.
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
    """Return the gradient at an edge that passes through another edge; None if no path leads there."""
    return torch.autograd.grad(of, at, gradient, retain_graph=True, allow_unused=True)


REFERENCE = (
    "Glorot & Bengio, Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010; De & "
    "Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function in Deep Networks, NeurIPS 2020"
)


@register_probe("signal_by_depth", smoke={"batch_size": 2, "batches": 1}, reference=REFERENCE)
def signal_by_depth(
    data: DataKind = "real", batch_size: int = 128, batches: int = 1, mode: Literal["eval", "train"] = "train"
) -> Measure:
    """Mean square of the outputs of every weight layer, in the order in which they run, and of the gradient there.

    By layer:

    - ``mean_square`` and ``standard_deviation`` of its outputs, before the activation, over units and samples;
    - ``squared_norm_ratio``, ‖h‖² / ‖h₀‖²: the squared norm of its input, averaged over samples, relative to the first
      layer's, which is the data's;
    - ``gradient_mean_square``, of the mean loss's gradient for its outputs: falls with the square of the batch size.

    By residual branch, under the name of its block, or of its last module if a block adds several:

    - ``skip_deviation`` and ``branch_deviation``: the standard deviations of the skip path and the branch where they
      are added;
    - ``skip_gradient`` and ``branch_gradient``: the root mean square of the gradient for the block's input that comes
      through the skip path and through the branch. After L normalized branches the skip deviation grows as √L, and the
      branch's gradient falls as 1/√L relative to the skip path's (authors' response to the reviews of SkipInit).

    Deviations are the population's. The runs of a layer that runs several times count together; for
    `nn.MultiheadAttention` the outputs are the whole module's. There are no values for recurrent layers, for weights
    whose module is not called, nor for branches that no module ends. The cost is one gradient per batch, at most one
    more backward pass with residual blocks, and one forward pass of a single sample.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with batch statistics, dropout on).

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, batches=batches)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        structure = find_structure(model, zero_inputs(context.inputs, model))
        modules = dict(model.named_modules())
        layers = _LayerSignals({layer.name: modules[layer.name] for layer in structure.layers if layer.name in modules})
        branches = BranchSignals(model, structure.branches)
        with preserved(model), forked_rng(model, context.seed, "probe"), torch.enable_grad():
            for parameter in model.parameters():  # the gradient also passes through frozen layers
                parameter.requires_grad_(parameter.is_floating_point())
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                inputs, targets = move(batch, like)
                with layers.taken(len(targets)), branches.taken():
                    loss = mean_loss(model, (inputs, targets), context.loss)
                    backward(loss, retain_graph=bool(structure.branches))
                branches.differentiate()
        conditions = {"data": data, "batch_size": batch_size, "batches": batches, "mode": mode}
        signals = layers.values() | {
            "skip_deviation": {name: moments.deviation for name, moments in branches.skip.items()},
            "branch_deviation": {name: moments.deviation for name, moments in branches.branch.items()},
            "skip_gradient": branches.root_mean_squares(branches.skip_gradient),
            "branch_gradient": branches.root_mean_squares(branches.branch_gradient),
        }
        return {name: PerLayer(values, conditions=conditions) for name, values in signals.items() if values}

    return measure


class _LayerSignals:
    """Measures the signals of layers during forward and backward passes within `taken`."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self._layers = layers
        self._inputs: dict[str, Moments] = defaultdict(Moments)
        self._outputs: dict[str, Moments] = defaultdict(Moments)
        self._gradients: dict[str, Moments] = defaultdict(Moments)
        self._samples = 0
        self._is_taking = False

    @contextmanager
    def taken(self, samples: int) -> Iterator[None]:
        """Measure a batch of this many samples; the first dimension of a layer's input may be windows or positions."""
        hooks = [layer.register_forward_hook(partial(self._look, name)) for name, layer in self._layers.items()]
        self._samples, self._is_taking = samples, True
        try:
            yield
        finally:
            self._is_taking = False
            for hook in hooks:
                hook.remove()

    def _look(self, name: str, _layer: nn.Module, inputs: Any, outputs: Any) -> None:
        given, results = tensors_in(inputs)[:1], tensors_in(outputs)[:1]
        for tensor in given:
            if tensor.is_floating_point():  # not the tokens of an embedding
                self._inputs[name].add(tensor, self._samples)
        for tensor in results:
            self._outputs[name].add(tensor)
            if tensor.requires_grad:
                tensor.register_hook(partial(self._look_back, name))  # type: ignore[no-untyped-call]

    def _look_back(self, name: str, gradient: Tensor) -> None:
        if self._is_taking:  # tensor hooks stay and would run again when branches are differentiated
            self._gradients[name].add(gradient)

    def values(self) -> dict[str, dict[str, float]]:
        outputs, inputs, gradients = (
            {name: moments[name] for name in self._layers if name in moments}
            for moments in (self._outputs, self._inputs, self._gradients)
        )
        norms = {name: moments.squared_norm for name, moments in inputs.items()}
        first = next(iter(norms.values()), 0.0)
        return {
            "mean_square": {name: moments.mean_square for name, moments in outputs.items()},
            "standard_deviation": {name: moments.deviation for name, moments in outputs.items()},
            "squared_norm_ratio": {name: norm / first for name, norm in norms.items()} if first else {},
            "gradient_mean_square": {name: moments.mean_square for name, moments in gradients.items()},
        }
