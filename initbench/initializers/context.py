"""The context that an initializer works with, and a check of its changes."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from initbench import randomness
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.record import InitializationRecord
from initbench.inputs import Inputs
from initbench.models.batches import Batch, LossFunction, Weight, move, reference_parameter, zero_inputs
from initbench.registry import INITIALIZERS, Initializer
from initbench.registry.traits import DataKind
from initbench.structure.find import Structure, find_structure
from initbench.tasks import Task, find_task


class Stage:
    """One initializer at work on a model: detects the parameters that it changed without recording it."""

    def __init__(self, name: str, model: nn.Module, record: InitializationRecord) -> None:
        self.name, self._model, self._record = name, model, record
        self._identities = _identities(model)
        self.begin()

    def begin(self) -> None:
        """Remember the current values by their checksums: a copy would be as large as the model."""
        self._before = {name: _checksum(parameter) for name, parameter in self._model.named_parameters()}
        self._said = {name: len(events) for name, events in self._record.tensors.items()}

    def settle(self) -> None:
        """Record unrecorded changes; raise an error if a parameter was added, removed or replaced."""
        if _identities(self._model) != self._identities:
            raise InitializationError(
                f"{self.name} added, removed or replaced a parameter; an initializer only sets values"
            )
        for name, parameter in self._model.named_parameters():
            silent = len(self._record.tensors.get(name, [])) == self._said.get(name, 0)
            if silent and _checksum(parameter) != self._before[name]:
                self._record.set_by(name, self.name)


def _checksum(tensor: Tensor) -> int:
    values = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return zlib.crc32(values.numpy().data)


def _identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


RealBatches = Iterable[Batch] | Callable[[int], Iterable[Batch]]
"""Batches of the training split, or a function that returns them for a given batch size."""


OPTIMIZERS = ("sgd", "signsgd", "adam", "adamw")


@dataclass(frozen=True)
class Optimizer:
    """The optimizer that the model will be trained with, one of `OPTIMIZERS`, and its learning rate.

    Raises:
        ArgumentError: there is no such optimizer, or the learning rate is not a finite number of at least 0.
    """

    name: str = "sgd"
    lr: float = 0.1

    def __post_init__(self) -> None:
        if self.name not in OPTIMIZERS:
            raise ArgumentError(f"must be one of {', '.join(OPTIMIZERS)}, got {self.name!r}", "training_optimizer")
        if not 0 <= self.lr < math.inf:
            raise ArgumentError(f"must have a finite learning rate of at least 0, got {self.lr}", "training_optimizer")


@dataclass
class InitializationContext:
    """The model, data and settings that an initializer may use.

    Attributes:
        model: the model to initialize; batches are moved to its device and dtype.
        record: collects what the initializer did.
        seed: the trial's seed.
        task: the task to be learned.
        inputs: describes one sample of the model's inputs; None if unknown.
        example: a batch of inputs, whose first sample `structure` uses; None for zeros.
        outputs: number of outputs of the model (classes, or tokens of a vocabulary); None if unknown.
        loss_fn: mean loss of a batch from (outputs, targets); None for the task's loss.
        may_read_optimizer: whether the initializer, or its base, declares that it reads `optimizer`.
        given_batches: the user's batches, which replace both random and real ones.
        real_batches: batches of the training split, or a function that returns them for a given batch size.
    """

    model: nn.Module
    record: InitializationRecord
    seed: int = 0
    task: Task = field(default_factory=partial(find_task, "classification"))
    inputs: Inputs | None = None
    example: Tensor | None = None
    outputs: int | None = None
    loss_fn: LossFunction | None = None
    may_read_optimizer: bool = True
    given_batches: Iterable[Batch] | None = None
    real_batches: RealBatches | None = None
    _training_optimizer: Optimizer = field(default_factory=Optimizer, repr=False)
    _stages: list[Stage] = field(default_factory=list, repr=False)

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer that the model will be trained with.

        Raises:
            InitializationError: neither the initializer nor its base declares that it reads the optimizer, so trials
                that differ only in the optimizer would share one initialized network.
        """
        if not self.may_read_optimizer:
            names = [stage.name for stage in reversed(self._stages)]
            undeclared = next(name for name in names if not INITIALIZERS.get(name).traits.reads_optimizer)
            raise InitializationError(
                f"{undeclared} reads the optimizer without declaring it: register it with reads_optimizer=True"
            )
        return self._training_optimizer

    @cached_property
    def structure(self) -> Structure:
        """The structure of the model, found on first use by running one sample.

        Raises:
            InitializationError: the model fails on its inputs, or they are unknown and cannot be inferred from the
                model.
        """
        return find_structure(self.model, self.sample_inputs())

    def sample_inputs(self, samples: int = 1) -> Tensor | None:
        """Return inputs of the model: the first samples of the example, else zeros; None if inputs are unknown.

        Args:
            samples: how many, if the example has as many.
        """
        if self.example is not None:
            first = self.example[:samples]
            return move((first, first), reference_parameter(self.model))[0]
        return None if self.inputs is None else zero_inputs(self.inputs, self.model, samples)

    def generator(self, key: str) -> torch.Generator:
        """Return a CPU generator at the start of the stream (seed, ``weights``, key).

        Args:
            key: the parameter's name, so that adding a parameter leaves the draws of all others unchanged.
        """
        return randomness.generator(self.seed, "weights", key)

    def apply(self, initializer: Initializer | None, model: nn.Module) -> None:
        """Run the base of an initializer on the model; None leaves the model as it is.

        Raises:
            InitializationError: the base cannot be applied to this model.
        """
        if initializer is not None:
            self.run(initializer.name, initializer.build(), model)

    def run(self, name: str, apply: Apply, model: nn.Module) -> None:
        """Run the function that an initializer's factory returned, and record any changes that it did not record.

        Args:
            name: the initializer's name in the record.
            apply: sets values in place.
            model: the model.

        Raises:
            InitializationError: it added, removed or replaced a parameter, or cannot be applied to this model.
        """
        outer = self._stages[-1] if self._stages else None
        if outer is not None:
            outer.settle()  # separates its changes so far from those that this initializer makes
        stage = Stage(name, model, self.record)
        self._stages.append(stage)
        try:
            apply(model, self)
        finally:
            self._stages.pop()
        stage.settle()
        if outer is not None:
            outer.begin()

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
        known = self.outputs if self.given_batches is None else None
        self.task.check_outputs(outputs, 1 if known is None else known)
        return self.task.loss(outputs, targets)

    def batches(self, data: DataKind, batch_size: int, random_inputs: Inputs | None = None) -> Iterator[Batch]:
        """Yield batches (inputs, targets) without end, starting with the first, and record their source.

        Args:
            data: ``random`` noise (see `Task.random_batch`) or ``real`` data; the user's own batches replace both.
            batch_size: samples per batch; the user's own batches keep their size.
            random_inputs: describes one sample of random data, if it differs from the model's inputs.

        Raises:
            InitializationError: there are no batches of this kind, they run out, or one is not a pair of tensors.
        """
        source, batches = self._source(data, batch_size, random_inputs)
        self.record.conditions["data"] = source
        reference = reference_parameter(self.model)
        step = 0
        for step, batch in enumerate(batches, start=1):
            if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(map(torch.is_tensor, batch))):
                raise InitializationError(f"batches must give (inputs, targets), two tensors; batch {step} is neither")
            yield move((batch[0], batch[1]), reference)
        raise InitializationError(f"batches ended early: step {step + 1} needs one, {step} were given")

    def _source(self, data: DataKind, batch_size: int, random_inputs: Inputs | None) -> tuple[str, Iterable[Batch]]:
        if self.given_batches is not None:
            return "given", self.given_batches
        if data == "real":
            if self.real_batches is None:
                raise InitializationError(f"{self.record.initializer} needs real data: give batches or real_batches")
            return "real", self.real_batches(batch_size) if callable(self.real_batches) else self.real_batches
        if self.inputs is None or self.outputs is None:
            missing = ["inputs or input_shape"] * (self.inputs is None) + ["num_classes"] * (self.outputs is None)
            raise InitializationError(
                f"{self.record.initializer} draws random batches: give {' and '.join(missing)}, or batches"
            )
        order = randomness.generator(self.seed, "tuner_batches")
        return "random", self.task.random_batches(random_inputs or self.inputs, self.outputs, batch_size, order)


Apply = Callable[[nn.Module, InitializationContext], None]
"""Returned by an initializer's factory: sets values in place; never adds, removes or replaces a parameter."""
