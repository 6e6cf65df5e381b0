"""Coordinate checks: the sizes of layers' outputs, and of their change in the first training steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts
from initbench.differentiation.gradients import check_parameters, trainable_parameters
from initbench.errors import InitbenchError
from initbench.models.batches import move, reference_parameter, zero_inputs
from initbench.models.calls import explained, mean_loss
from initbench.models.state import evaluate_but_batch_norm, forgetful
from initbench.probes.context import Measure, ProbeContext
from initbench.probes.measurement import Measurement, PerLayer
from initbench.registry import register_probe
from initbench.registry.traits import DataKind
from initbench.structure.find import find_structure
from initbench.structure.layer_outputs import block_modules, layer_modules, recorded, root_mean_square


@register_probe(
    "coordinates",
    smoke={"batch_size": 2},
    reference="Yang et al., Tensor Programs V: Tuning Large Neural Networks via Zero-Shot Hyperparameter Transfer, "
    "2022, appendix D.1",
)
def coordinates(data: DataKind = "real", batch_size: int = 32, steps: int = 2) -> Measure:
    """Root mean square of each layer's outputs at initialization, and of their change by the first training steps.

    By weight layer, and by block of residual branches, which adds the branches to its input:

    - ``activation``: the root mean square of h(0), the layer's outputs, over units and samples;
    - ``change``: that of h(t) − h(0) on the same batch after t = `steps` steps on that batch.

    The trial's optimizer takes the steps, with the rates, weight decays and ε that the initializer multiplies, and
    without the recipe's schedule and clipping. It trains a copy of the model, without dropout; BatchNorm uses the
    batch. Over several widths of a network, the report fits exponents to both. The cost is `steps` gradients of a
    batch, two forward passes, and memory for a second model and twice the outputs of all layers in float64.

    A change of 0 has no exponent. Layers behind a head that starts at 0 first move in the second step.

    Args:
        data: ``real`` inputs and targets, or ``random`` ones.
        batch_size: samples of the batch.
        steps: number of steps, t.

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, steps=steps)

    def measure(model: nn.Module, context: ProbeContext) -> dict[str, Measurement]:
        if context.optimizer is None:
            raise InitbenchError(
                "coordinates takes training steps and has no optimizer: give ProbeContext the argument optimizer, "
                "a function that returns one for a model"
            )
        with explained("coordinates measures a copy of the model, and copying fails"):
            trained = copy.deepcopy(model)
        check_parameters(trainable_parameters(trained))
        structure = find_structure(trained, zero_inputs(context.inputs, trained))
        layers = layer_modules(trained, structure) | block_modules(trained, structure)
        [batch] = context.batches(data, batch_size, 1)
        inputs, targets = move(batch, reference_parameter(trained))
        optimizer = context.optimizer(trained)
        evaluate_but_batch_norm(trained, "train")
        with forgetful(trained):
            before = _outputs(trained, layers, (inputs, targets), context)
            for _ in range(steps):
                with torch.enable_grad():
                    loss = mean_loss(trained, (inputs, targets), context.loss)
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            after = _outputs(trained, layers, (inputs, targets), context)
        conditions = {"data": data, "batch_size": batch_size, "steps": steps}
        sizes = {name: root_mean_square(value) for name, value in before.items()}
        changes = {name: root_mean_square(after[name] - value) for name, value in before.items()}
        return {
            "activation": PerLayer(sizes, conditions=conditions),
            "change": PerLayer(changes, conditions=conditions),
        }

    return measure


@torch.no_grad()
def _outputs(
    model: nn.Module, layers: Mapping[str, nn.Module], batch: tuple[Tensor, Tensor], context: ProbeContext
) -> dict[str, Tensor]:
    with recorded(layers) as outputs:
        mean_loss(model, batch, context.loss)
    return outputs
