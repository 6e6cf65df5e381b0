"""The size of the signal in every layer, forwards and back, and on both paths of residual blocks."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_count
from initbench.batches import DataKind, move, reference_parameter, zero_inputs
from initbench.differentiation.gradients import backward
from initbench.models.preservation import forked_rng, preserved
from initbench.models.user_code import mean_loss
from initbench.probes.branch_signals import BranchSignals
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer
from initbench.probes.moments import Moments
from initbench.registry import register_probe
from initbench.structure.find import find_structure
from initbench.structure.run_graph import tensors_in

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    - ``squared_norm_ratio``, ‖h‖² / ‖h₀‖²: its input's squared norm, the mean over the samples, over that of the first
      layer's, which is the data's;
    - ``gradient_mean_square``, of the mean loss's gradient for its outputs: falls with the square of the batch size.

    By residual branch, by the name of its block, or of its last module where a block adds several:

    - ``skip_deviation`` and ``branch_deviation``: the standard deviation of what the branch is added to, and its own;
    - ``skip_gradient`` and ``branch_gradient``: the root mean square of the gradient for the block's input that comes
      through the skip path and through the branch. Behind L normalized branches the first deviation grows as √L, and
      the branch's gradient falls as 1/√L relative to the skip path's (authors' response to the reviews of SkipInit).

    Deviations are the population's. A layer that runs several times has the mean over its runs; of
    `nn.MultiheadAttention` the outputs are those of the whole module. Weights that no module is called for have no
    values, nor have branches that no module ends. It costs one gradient a batch, with residual blocks at most a
    backward pass more, and one forward pass of a single sample.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        mode: ``eval`` or ``train`` (BatchNorm with the batch's statistics, dropout on).

    Raises:
        ArgumentError: a number is out of its range.
    """
    check_count("batch_size", batch_size)
    check_count("batches", batches)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        like = reference_parameter(model)
        structure = find_structure(model, zero_inputs(context.inputs, model))
        modules = dict(model.named_modules())
        layers = _LayerSignals({layer.name: modules[layer.name] for layer in structure.layers if layer.name in modules})
        branches = BranchSignals(model, structure.branches)
        with preserved(model), forked_rng(model, context.seed, "probe"), torch.enable_grad():
            for parameter in model.parameters():  # the gradient passes through frozen layers, too
                parameter.requires_grad_(parameter.is_floating_point())
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                inputs, targets = move(batch, like)
                with layers.taken(), branches.taken():
                    loss = mean_loss(model, (inputs, targets), context.loss)
                    backward(loss, retain_graph=bool(structure.branches))
                branches.differentiate()
        conditions = {"data": data, "batch_size": batch_size, "batches": batches, "mode": mode}
        found = layers.values() | {
            "skip_deviation": {name: own.deviation for name, own in branches.skip.items()},
            "branch_deviation": {name: own.deviation for name, own in branches.branch.items()},
            "skip_gradient": branches.root_mean_squares(branches.skip_gradient),
            "branch_gradient": branches.root_mean_squares(branches.branch_gradient),
        }
        return {name: PerLayer(values, conditions=conditions) for name, values in found.items() if values}

    return measure


class _LayerSignals:
    """Takes the signals of layers while a model runs forwards and back within `taken`.

    Args:
        layers: by name, in the order of the measurements.
    """

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self._layers = layers
        self._inputs: dict[str, Moments] = defaultdict(Moments)
        self._outputs: dict[str, Moments] = defaultdict(Moments)
        self._gradients: dict[str, Moments] = defaultdict(Moments)
        self._is_taking = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take the signals of what runs within this."""
        hooks = [layer.register_forward_hook(partial(self._look, name)) for name, layer in self._layers.items()]
        self._is_taking = True
        try:
            yield
        finally:
            self._is_taking = False
            for hook in hooks:
                hook.remove()

    def _look(self, name: str, _layer: nn.Module, inputs: Any, outputs: Any) -> None:
        given, found = tensors_in(inputs)[:1], tensors_in(outputs)[:1]
        for tensor in given:
            if tensor.is_floating_point():  # an embedding is given tokens
                self._inputs[name].add(tensor)
        for tensor in found:
            self._outputs[name].add(tensor)
            if tensor.requires_grad:
                tensor.register_hook(partial(self._look_back, name))  # type: ignore[no-untyped-call]

    def _look_back(self, name: str, gradient: Tensor) -> None:
        if self._is_taking:  # hooks of tensors stay, and those of branches are differentiated once more
            self._gradients[name].add(gradient)

    def values(self) -> dict[str, dict[str, float]]:
        """Return what was measured by layer, see `signal_by_depth`."""
        outputs, inputs, gradients = (
            {name: found[name] for name in self._layers if name in found}
            for found in (self._outputs, self._inputs, self._gradients)
        )
        norms = {name: own.squared_norm for name, own in inputs.items()}
        first = next(iter(norms.values()), 0.0)
        return {
            "mean_square": {name: own.mean_square for name, own in outputs.items()},
            "standard_deviation": {name: own.deviation for name, own in outputs.items()},
            "squared_norm_ratio": {name: norm / first for name, norm in norms.items()} if first else {},
            "gradient_mean_square": {name: own.mean_square for name, own in gradients.items()},
        }
