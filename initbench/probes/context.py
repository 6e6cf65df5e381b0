"""The context that a probe works with, and measuring a model with a probe."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from initbench.errors import DataError
from initbench.inputs import Inputs
from initbench.models.batches import Batch, LossFunction, RealBatchSource, Weight
from initbench.models.kernels import float32_products
from initbench.probes.measurement import Measurement, entries
from initbench.randomness import generator
from initbench.registry import PROBES, Initializer
from initbench.registry.traits import DataKind
from initbench.tasks import Task, find_task


def median(values: Sequence[float]) -> float:
    """Return the median, counting NaN as the worst outcome, +∞."""
    return statistics.median(math.inf if math.isnan(value) else value for value in values)


@dataclass(frozen=True)
class ProbeContext:
    """The data and settings that a probe may use.

    Attributes:
        seed: the trial's seed.
        inputs: describes one sample of the model's inputs.
        outputs: number of outputs of the model: classes, or tokens of a vocabulary.
        task: the task to be learned.
        loss_fn: mean loss of a batch from (outputs, targets), instead of the task's.
        real_batches: batches of the training split; None without data.
        optimizer: returns a new optimizer of a model's parameters, as training would use it; None without training.
    """

    seed: int
    inputs: Inputs
    outputs: int
    task: Task = field(default_factory=partial(find_task, "classification"))
    loss_fn: LossFunction | None = None
    real_batches: RealBatchSource | None = None
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None

    @property
    def weight(self) -> Weight | None:
        """The weight of a batch in a mean over several, `Task.weight`; None if `loss_fn` is given."""
        return self.task.weight if self.loss_fn is None else None

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch, 0-dim.

        Raises:
            InitializationError: the model has fewer outputs than the task needs.
        """
        if self.loss_fn is not None:
            return self.loss_fn(outputs, targets)
        self.task.check_outputs(outputs, self.outputs)
        return self.task.loss(outputs, targets)

    def generator(self, *keys: str) -> torch.Generator:
        """Return a CPU generator of the probe's own, starting the stream (seed, ``probe_batches``, keys)."""
        return generator(self.seed, "probe_batches", "own", *keys)  # not the stream of `batches`

    def batches(self, data: DataKind, batch_size: int, count: int) -> Iterator[Batch]:
        """Yield batches, the same at every call with the same arguments: probes and initializers see equal data.

        Args:
            data: ``random`` (see `Task.random_batch`) or ``real``.
            batch_size: samples per batch.
            count: number of batches.

        Raises:
            DataError: real batches are requested, but there are none, or fewer than `count`.
        """
        order = generator(self.seed, "probe_batches", data)
        if data == "random":
            yield from islice(self.task.random_batches(self.inputs, self.outputs, batch_size, order), count)
            return
        if self.real_batches is None:
            raise DataError("data: real needs a dataset; use data: random without one")
        given = 0
        for batch in islice(self.real_batches(batch_size, order), count):
            given += 1
            yield batch
        if given < count:
            raise DataError(f"batches: {count} of {batch_size} samples are needed, but the data has only {given}")


Measure = Callable[[nn.Module, ProbeContext], Measurement | Mapping[str, Measurement]]
"""Returned by a probe's factory: returns one measurement, or several by a suffix of the probe's name.

It leaves the model (modes, buffers, gradients, `requires_grad`) as it was.
"""


def measure(name: str, arguments: Mapping[str, Any], model: nn.Module, context: ProbeContext) -> list[dict[str, Any]]:
    """Measure a model with a probe, in exact float32, and return an entry for each measurement as in a trial's record.

    Args:
        name: the probe's registered name, such as ``signal_by_depth``.
        arguments: the probe's own, such as ``{"data": "random"}``.
        model: is left as it was.
        context: the seed, and the data if the probe needs real ones.

    Returns:
        Plain data, with the keys ``name``, ``value`` or the like, and ``conditions``.

    Raises:
        UnknownNameError: no probe has this name.
        ArgumentError: the probe refuses an argument.
        DataError: the probe needs real data, and the context has none.
    """
    with float32_products():
        return entries(label(name, arguments), PROBES.get(name).build(arguments)(model, context))


def label(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a probe's name with its arguments that differ from their defaults: ``gradient_quotient[mode=train]``."""
    component = PROBES.get(name)
    resolved = component.resolve(arguments)
    default = component.resolve({a.name: resolved[a.name] for a in component.arguments if a.required})
    always = {a.name for a in component.arguments if a.required}
    changed = {key: value for key, value in resolved.items() if key in always or value != default[key]}
    shown = (f"{key}={value.name if isinstance(value, Initializer) else value}" for key, value in changed.items())
    return name + (f"[{', '.join(shown)}]" if changed else "")
