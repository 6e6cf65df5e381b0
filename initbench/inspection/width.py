"""How activations and their first updates scale with a model's width: a coordinate check with fitted exponents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from initbench.arguments import check_counts, check_positive
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.inspection.batch import draw_pairs, infer_inputs, objective_of
from initbench.inspection.source import model_source
from initbench.json_values import json_values
from initbench.models.batches import move, reference_parameter, zero_inputs
from initbench.models.calls import running_on, tensor_of
from initbench.models.state import evaluate_but_batch_norm
from initbench.probes.coordinate_check import NOT_MOVED, TOLERANCE
from initbench.structure.find import find_structure
from initbench.structure.layer_outputs import layer_modules, recorded, root_mean_square

RATES = {"adam": 1e-4, "sgd": 5e-3}
"""Small, because large steps hide growth behind saturation and normalization."""


def _growth(exponent: float, *, several: bool = False) -> str:
    verb = "grow" if exponent > 0 else "shrink"
    return f"{verb}{'' if several else 's'} as width^{exponent:.2f}"


@dataclass(frozen=True)
class WidthRow:
    """The exponents of one layer's outputs in the width.

    Attributes:
        layer: its name.
        activation: slope of log RMS over log width before training.
        update: slope of log RMS of the outputs' change; None if they do not change, as behind zeros.
        activations: the root mean square at each width, the geometric mean over seeds.
        updates: of the change, at each width.
    """

    layer: str
    activation: float | None
    update: float | None
    activations: tuple[float, ...]
    updates: tuple[float, ...]

    @property
    def sentence(self) -> str:
        """How the update scales, and the outputs before it if they do not stay the same."""
        if self.update is None:
            return NOT_MOVED
        update = "is stable" if abs(self.update) < TOLERANCE else _growth(self.update)
        if self.activation is None or abs(self.activation) < TOLERANCE:
            return update
        return f"{update}, and the outputs at the start {_growth(self.activation, several=True)}"

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return dict(json_values(vars(self)))


@dataclass(frozen=True)
class Widths:
    """The result of `scale_width`; ``print`` shows one line per layer.

    Attributes:
        model: its name.
        argument: the argument that sets the width.
        widths: its values.
        optimizer: ``adam`` or ``sgd``.
        lr: its learning rate, the same at all widths.
        steps: number of steps on one batch.
        rows: one for each layer, in the order in which they run; heads last.
        seeds: number of seeds.
    """

    model: str
    argument: str
    widths: tuple[int, ...]
    optimizer: str
    lr: float
    steps: int
    rows: tuple[WidthRow, ...]
    seeds: int

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return vars(self) | {"widths": list(self.widths), "rows": [row.to_json() for row in self.rows]}

    def __str__(self) -> str:
        return "\n".join(f"{row.layer}: the update {row.sentence}" for row in self.rows)


def scale_width(
    model: str,
    argument: str,
    widths: Sequence[int],
    *,
    along: Mapping[str, Sequence[Any]] | None = None,
    arguments: Mapping[str, Any] | None = None,
    inputs: Inputs | None = None,
    outputs: int | None = None,
    optimizer: str = "adam",
    lr: float | None = None,
    steps: int = 1,
    seeds: int = 3,
) -> Widths:
    """Fit how the outputs of each layer, and their change by the first steps, scale with the width.

    In the standard parametrization, updates of later hidden layers grow as width^1 with Adam and width^½ with SGD at
    the first step, and updates of logits as width^1; in muP (Yang et al., Tensor Programs V, 2022) all exponents are 0,
    except those of embeddings that the network multiplies by √width afterwards.

    Args:
        model: an architecture, or ``package.module:function``.
        argument: the argument that sets the width.
        widths: at least two values.
        along: arguments that change with it: name → a value for each width.
        arguments: the model's other arguments.
        inputs: describes one sample.
        outputs: number of classes.
        optimizer: ``adam`` or ``sgd``, at one rate for all tensors.
        lr: its learning rate; by default `RATES`.
        steps: number of steps on one batch. Behind a zero head nothing moves before the second.
        seeds: number of seeds.

    Raises:
        InitbenchError: fewer than two widths; a list of other length; or the models have other layers.
    """
    along = along or {}
    if len(set(widths)) < 2:
        raise InitbenchError(f"--width {argument}: needs at least two widths")
    for name, values in along.items():
        if len(values) != len(widths):
            raise InitbenchError(f"{name} has {len(values)} values for {len(widths)} widths")
    if optimizer not in RATES:
        raise InitbenchError(f"optimizer must be adam or sgd, got {optimizer!r}")
    check_counts(steps=steps, seeds=seeds)
    rate = RATES[optimizer] if lr is None else lr
    check_positive(lr=rate)
    measured = []
    for index, width in enumerate(widths):
        chosen = dict(arguments or {}) | {argument: width} | {name: values[index] for name, values in along.items()}
        source = model_source(model, chosen, inputs=inputs, outputs=outputs if ":" not in model else None)
        of_width = []
        for seed in range(seeds):
            built = source.build(seed)
            sample = source.inputs or infer_inputs(built)
            of_width.append(_measured(built, sample, source.outputs or outputs, seed, optimizer, rate, steps))
        measured.append(of_width)
    layers = [list(of_seed) for of_width in measured for of_seed in of_width]
    if any(names != layers[0] for names in layers):
        raise InitbenchError(f"{model}: the layers differ between the widths")
    rows = tuple(
        _row(layer, [[of_seed[layer] for of_seed in of_width] for of_width in measured], widths) for layer in layers[0]
    )
    return Widths(model, argument, tuple(widths), optimizer, rate, steps, rows, seeds)


def _row(layer: str, measured: list[list[tuple[float, float]]], widths: Sequence[int]) -> WidthRow:
    activations, updates = (
        tuple(_geometric_mean([one[part] for one in of_width]) for of_width in measured) for part in (0, 1)
    )
    return WidthRow(layer, _slope(widths, activations), _slope(widths, updates), activations, updates)


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if min(values) > 0 else 0.0


def _slope(widths: Sequence[int], values: Sequence[float]) -> float | None:
    if not all(value > 0 and math.isfinite(value) for value in values):
        return None
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def _measured(
    model: nn.Module, inputs: Inputs, outputs: int | None, seed: int, optimizer: str, lr: float, steps: int
) -> dict[str, tuple[float, float]]:
    """Return by layer the root mean squares of the outputs before some steps of training, and of their change."""
    objective = objective_of(model, inputs, outputs, None)
    layers = layer_modules(model, find_structure(model, zero_inputs(inputs, model)))
    pairs = draw_pairs(inputs, seed, samples=8, objective=objective)
    evaluate_but_batch_norm(model, "train")
    samples, targets = move(objective.with_targets(pairs, seed), reference_parameter(model))

    def run() -> tuple[dict[str, Tensor], Tensor]:
        with recorded(layers) as of_layers, running_on(samples):
            result = tensor_of(model(samples))
        return of_layers, objective.function(seed)(result, targets)

    before, _ = run()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    trained: torch.optim.Optimizer = torch.optim.SGD(parameters, lr=lr)
    if optimizer == "adam":  # gradients below ε, which shrink with the width, would hide the exponents
        trained = torch.optim.Adam(parameters, lr=lr, eps=1e-16)
    for _ in range(steps):
        _, loss = run()
        trained.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        trained.step()
    after, _ = run()
    return {name: (root_mean_square(h), root_mean_square(after[name] - h)) for name, h in before.items()}
