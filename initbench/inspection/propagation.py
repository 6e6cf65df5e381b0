"""Signals and gradients of an untrained model over depth, from one forward and one backward pass."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from initbench.differentiation.gradients import backward
from initbench.inspection.batch import Objective, Pairs, project
from initbench.models.batches import move, reference_parameter
from initbench.models.calls import removed, running_on, tensor_of
from initbench.models.state import evaluate_but_batch_norm, forked_rng, preserved
from initbench.probes.signal_by_depth import BranchSignals
from initbench.structure.find import Structure
from initbench.structure.functions import name_of
from initbench.structure.layer import Layer
from initbench.structure.run_graph import tensors_in


@dataclass(frozen=True)
class LayerSignal:
    """The signal and the gradient at one layer; a number that cannot be measured is None.

    Attributes:
        name: of the layer, or of the weight if its module has several.
        output: root mean square of its outputs, over samples and units. For stacked recurrent layers, of the last
            hidden state.
        gradient: root mean square of the objective's gradient for its outputs.
        correlation: mean cosine of the outputs for two different inputs.
        near: the same for two inputs whose own cosine is 0.9.
        update: ‖gradient‖ / ‖weight‖: the relative change of the weight by one step of gradient descent at rate 1; None
            if the weight is zero.
        kind: as in `initbench.Layer`.
        aside: whether comparisons over depth leave it out: queries and keys, whose gradients are small as long as
            attention is uniform, and residual branches that end in zeros or whose gate makes them smaller than 1 % of
            their skip path, because it makes their gradients as small.
        branch: the number of the residual branch that it belongs to, from 1; None beside branches.
    """

    name: str
    output: float | None = None
    gradient: float | None = None
    correlation: float | None = None
    near: float | None = None
    update: float | None = None
    kind: str = ""
    aside: bool = False
    branch: int | None = None


@dataclass(frozen=True)
class Propagation:
    """One forward and one backward pass at one seed.

    Attributes:
        seed: of the model and the batch.
        layers: in the order in which they run.
        branches: residual block → standard deviation of the branch / standard deviation of the skip path.
        dead: for each ReLU in the order in which they run, the fraction of units (channels of an image, features of the
            last dimension otherwise) that are 0 for the whole batch.
        loss: cross-entropy in nats (`Objective.loss`); None without a known number of classes or tokens.
        gradient_norm: of the gradient for all parameters.
        output: root mean square of the model's outputs.
        normalized: whether the model has normalizations, so that the scale of outputs means little.
        heads: names of the layers that produce the outputs.
        zero_head: whether all heads are zero; a projection of the heads' inputs is then differentiated instead.
    """

    seed: int
    layers: tuple[LayerSignal, ...]
    branches: dict[str, float]
    dead: tuple[float, ...]
    loss: float | None
    gradient_norm: float
    output: float
    normalized: bool = False
    heads: tuple[str, ...] = ()
    zero_head: bool = False

    @property
    def trunk(self) -> tuple[LayerSignal, ...]:
        """The layers before the heads."""
        return tuple(layer for layer in self.layers if layer.name not in self.heads)


def propagate(model: nn.Module, pairs: Pairs, objective: Objective, structure: Structure, *, seed: int) -> Propagation:
    """Return the signals of a model, with batch statistics in BatchNorm and without dropout.

    The model is left as it was. The result depends on the arguments alone.

    Raises:
        InitializationError: the model fails on the inputs, or cannot be differentiated.
    """
    layers = structure.layers
    recorder = _Recorder(model, layers, structure.heads, pairs.samples)
    branches = BranchSignals(model, structure.branches)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    with preserved(model), forked_rng(model, seed, "probe"), torch.enable_grad():
        for parameter in model.parameters():  # the gradient also passes through frozen layers
            parameter.requires_grad_(parameter.is_floating_point())
        evaluate_but_batch_norm(model, "train")
        inputs, targets = move(objective.with_targets(pairs, seed), reference_parameter(model))
        with recorder.taken(), branches.taken(), running_on(inputs):
            outputs = tensor_of(model(inputs))
        value = objective.function(seed)(outputs, targets)
        heads = [parameters[layer.weight] for layer in layers if layer.name in structure.heads]
        zero_head = bool(heads) and not any(bool(head.any()) for head in heads)
        backward(project(recorder.head_inputs, seed=seed) if zero_head and recorder.head_inputs else value)
        gradients = {id(p): _norm(p.grad) for p in model.parameters() if p.grad is not None}
        norm = math.hypot(*gradients.values())
        weights = {layer.name: parameters[layer.weight] for layer in layers}
        updates = {name: _update(weight, gradients.get(id(weight))) for name, weight in weights.items()}
    ratios = {
        name: branches.branch[name].deviation / (branches.skip[name].deviation or math.nan) for name in branches.skip
    }
    aside = _aside(structure, ratios)
    number = {name: i for i, b in enumerate(structure.branches, start=1) for name in (*b.inner, *b.ends)}
    return Propagation(
        seed,
        tuple(
            replace(
                recorder.signal(layer.name),
                update=updates[layer.name],
                kind=layer.kind,
                aside=layer.name in aside,
                branch=number.get(layer.name),
            )
            for layer in layers
        ),
        {name: ratio for name, ratio in ratios.items() if math.isfinite(ratio)},
        tuple(recorder.dead),
        objective.loss(outputs, targets),
        norm,
        _root_mean_square([tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()]),
        bool(structure.norms),
        structure.heads,
        zero_head,
    )


def _norm(tensor: Tensor) -> float:
    """Return the L2 norm, in float64 if squares of float32 numbers overflow or underflow."""
    quick = float(torch.linalg.vector_norm(tensor.detach()))
    if 1e-15 < quick < 1e15:
        return quick
    return float(torch.linalg.vector_norm(tensor.detach().abs().double()))  # of complex numbers, too


def _update(weight: Tensor, gradient: float | None) -> float | None:
    size = _norm(weight)
    return (gradient or 0.0) / size if size else None


_GATED = 0.01


def _aside(structure: Structure, ratios: dict[str, float]) -> set[str]:
    names = {name for one in structure.attention if not one.fused for name in (*one.query, *one.key)}
    for branch in structure.branches:
        ratio = ratios.get(branch.output or "", ratios.get(branch.block, math.inf))
        if not ratio or (branch.gates and ratio < _GATED):
            names |= {*branch.inner, *branch.ends}
    return names


def _root_mean_square(tensors: list[Tensor]) -> float:
    entries = sum(tensor.numel() for tensor in tensors)
    squares = sum(_norm(tensor) ** 2 for tensor in tensors)
    return math.sqrt(squares / entries) if entries else math.nan


@dataclass
class _Layer:
    outputs: list[float] = field(default_factory=list)
    gradients: list[float] = field(default_factory=list)
    correlation: float | None = None
    near: float | None = None


_STACKED = re.compile(r"(.*)\.?weight_hh_l(\d+)$")


class _Recorder(TorchFunctionMode):
    """Measures layers and ReLUs while a model runs within `taken`; gradients follow in the backward pass."""

    def __init__(self, model: nn.Module, layers: Sequence[Layer], heads: tuple[str, ...], samples: int) -> None:
        super().__init__()
        self._modules = dict(model.named_modules())
        self._layers = {layer.name: _Layer() for layer in layers}
        self._heads, self._samples = heads, samples
        self.head_inputs: list[Tensor] = []
        self.dead: list[float] = []

    @contextmanager
    def taken(self) -> Iterator[None]:
        hooks = []
        for name in self._layers:
            stacked = _STACKED.match(name)
            if stacked and isinstance(self._modules.get(stacked[1].rstrip(".")), nn.RNNBase):
                module, index = self._modules[stacked[1].rstrip(".")], int(stacked[2])
                hooks.append(module.register_forward_hook(partial(self._look_at_state, name, index)))
            elif name in self._modules:
                hooks.append(self._modules[name].register_forward_hook(partial(self._look, name)))
        with removed(hooks), self:
            yield

    def _look(self, name: str, _module: nn.Module, inputs: Any, outputs: Any) -> None:
        if name in self._heads:
            self.head_inputs += [tensor for tensor in tensors_in(inputs)[:1] if tensor.requires_grad]
        for tensor in [tensor for tensor in tensors_in(outputs) if tensor.is_floating_point()][:1]:
            self._note(name, tensor)

    def _look_at_state(self, name: str, index: int, module: nn.RNNBase, _inputs: Any, outputs: Any) -> None:
        states = outputs[1][0] if isinstance(outputs[1], tuple) else outputs[1]
        if states.dim() == 3:  # (layers × directions, samples, units)
            self._note(name, states[index * (1 + module.bidirectional)])

    def _note(self, name: str, tensor: Tensor) -> None:
        layer = self._layers[name]
        values = tensor.detach()
        layer.outputs.append(_root_mean_square([values]))
        layer.correlation, layer.near = correlations(values, self._samples)
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient: layer.gradients.append(_root_mean_square([gradient])))  # type: ignore[no-untyped-call]

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        """Call a function; of a ReLU, count the units that are 0 for the whole batch."""
        result = function(*arguments, **(options or {}))
        if name_of(function) == "relu" and torch.is_tensor(result) and result.dim() > 1:
            units = 1 if result.dim() > 3 else result.dim() - 1
            others = [dimension for dimension in range(result.dim()) if dimension != units]
            self.dead.append(float((result.detach().amax(others) == 0).float().mean()))
        return result

    def signal(self, name: str) -> LayerSignal:
        layer = self._layers[name]
        return LayerSignal(name, _mean_of(layer.outputs), _mean_of(layer.gradients), layer.correlation, layer.near)


def _mean_of(values: list[float]) -> float | None:
    """Return the root mean square over a layer's runs."""
    return math.sqrt(sum(value**2 for value in values) / len(values)) if values else None


def correlations(values: Tensor, samples: int) -> tuple[float | None, float | None]:
    """Return the mean cosine of different samples, and of neighbours; see `Pairs`.

    Args:
        values: (2n, ...); None is returned for other first dimensions, and if samples are zero.
        samples: the number n of pairs.
    """
    if not values.dim() or len(values) != 2 * samples or not values.is_floating_point():
        return None, None
    rows = values.flatten(1).float()
    rows = rows / rows.abs().amax(1, keepdim=True)  # squares of large numbers overflow
    rows = rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    first, second = rows[:samples], rows[samples:]
    cosines = [float((first * other).sum(1).mean()) for other in (first.roll(1, 0), second)]
    return (cosines[0], cosines[1]) if all(map(math.isfinite, cosines)) else (None, None)
