"""What an initializer is given, and what it changes without saying so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from initbench import randomness
from initbench.errors import InitializationError
from initbench.initializers.record import InitializationRecord
from initbench.inputs import Inputs
from initbench.models.batches import Batch, LossFunction, move, reference_parameter, zero_inputs
from initbench.registry import INITIALIZERS, Initializer
from initbench.registry.traits import DataKind
from initbench.structure.find import Structure, find_structure
from initbench.tasks import Task, find_task


class Stage:
    """One initializer at work on a model: what it changed, and whether it said so."""

    def __init__(self, name: str, model: nn.Module, record: InitializationRecord) -> None:
        self.name, self._model, self._record = name, model, record
        self._identities = _identities(model)
        self.begin()

    def begin(self) -> None:
        """Take what is there now as what it starts from, by its digests: a copy would be as large as the model."""
        self._before = {name: _digest(parameter) for name, parameter in self._model.named_parameters()}
        self._said = {name: len(events) for name, events in self._record.tensors.items()}

    def settle(self) -> None:
        """Record what was changed since without a word; a parameter that was added, removed or replaced is an error."""
        if _identities(self._model) != self._identities:
            raise InitializationError(
                f"{self.name} added, removed or replaced a parameter; an initializer only sets values"
            )
        for name, parameter in self._model.named_parameters():
            silent = len(self._record.tensors.get(name, [])) == self._said.get(name, 0)
            if silent and _digest(parameter) != self._before[name]:
                self._record.set_by(name, self.name)


def _digest(tensor: Tensor) -> bytes:
    values = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(values.numpy().data).digest()


def _identities(model: nn.Module) -> dict[str, int]:
    return {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}


RealBatches = Iterable[Batch] | Callable[[int], Iterable[Batch]]
"""Batches of the training split, or a function from the number of samples of a batch to them."""


@dataclass(frozen=True)
class Optimizer:
    """The optimizer that the model will be trained with.

    Attributes:
        name: ``sgd`` or ``adam``.
        lr: its learning rate.
    """

    name: str = "sgd"
    lr: float = 0.1


@dataclass
class InitializationContext:
    """What an initializer may use.

    Attributes:
        model: the model that is initialized; batches come on its device and in its dtype.
        record: what the initializer did goes here.
        seed: the trial's seed.
        task: what is learned.
        inputs: one sample of the model's inputs; None where that is not known.
        example: a batch of inputs, of which `structure` takes the first sample; None for zeros.
        outputs: how many outputs the model has: classes, or tokens of a vocabulary; None where that is not known.
        loss_fn: mean loss of a batch from (outputs, targets); by default the task's.
        may_read_optimizer: whether the initializer, or one that it starts from, has declared that it reads `optimizer`.
        given_batches: the user's batches, which replace generated and real ones.
        real_batches: batches of the training split, or a function that returns them for a number of samples.
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
        """What the model will be trained with.

        Raises:
            InitializationError: neither the initializer nor what it starts from has declared that it reads it, so
                trials with other optimizers would share the network that it makes.
        """
        if not self.may_read_optimizer:
            names = [stage.name for stage in reversed(self._stages)]
            undeclared = next(name for name in names if not INITIALIZERS.get(name).traits.reads_optimizer)
            raise InitializationError(
                f"{undeclared} reads the optimizer and has not declared it: register it with reads_optimizer=True"
            )
        return self._training_optimizer

    @cached_property
    def structure(self) -> Structure:
        """What is known of the model from one run with one sample; looked for when it is first asked for.

        Raises:
            InitializationError: the model fails on its inputs, or these are not known and cannot be told from it.
        """
        if self.example is None and self.inputs is None:
            return find_structure(self.model)
        if self.example is not None:
            batch, _ = move((self.example[:1], self.example[:1]), reference_parameter(self.model))
            return find_structure(self.model, batch)
        assert self.inputs is not None
        return find_structure(self.model, zero_inputs(self.inputs, self.model))

    def generator(self, key: str) -> torch.Generator:
        """Return a CPU generator at the start of the stream (seed, ``weights``, key).

        Args:
            key: the parameter's name, so that a parameter that is added shifts no other draw.
        """
        return randomness.generator(self.seed, "weights", key)

    def apply(self, initializer: Initializer | None, model: nn.Module) -> None:
        """Run another initializer on the model: what an initializer starts from. None takes the model as it is.

        Raises:
            InitializationError: it cannot do its work on this model.
        """
        if initializer is not None:
            self.run(initializer.name, initializer.build(), model)

    def run(self, name: str, apply: Apply, model: nn.Module) -> None:
        """Run what an initializer's factory has returned, and record what it changed without saying so.

        Args:
            name: the initializer's, for the record.
            apply: sets values in place.
            model: the model.

        Raises:
            InitializationError: it added, removed or replaced a parameter, or cannot do its work on this model.
        """
        outer = self._stages[-1] if self._stages else None
        if outer is not None:
            outer.settle()  # what it has changed so far is its own, what this one changes is not
        stage = Stage(name, model, self.record)
        self._stages.append(stage)
        try:
            apply(model, self)
        finally:
            self._stages.pop()
        stage.settle()
        if outer is not None:
            outer.begin()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch, 0-dim.

        Raises:
            InitializationError: the model has fewer outputs than the task needs.
        """
        if self.loss_fn is not None:
            return self.loss_fn(outputs, targets)
        if self.outputs is not None and self.given_batches is None:
            self.task.check_outputs(outputs, self.outputs)
        return self.task.loss(outputs, targets)

    def batches(self, data: DataKind, batch_size: int, random_inputs: Inputs | None = None) -> Iterator[Batch]:
        """Yield batches (inputs, targets) without end, from the first, and record where they come from.

        Args:
            data: ``random`` noise (see `Task.random_batch`) or ``real`` data; the user's own replace both.
            batch_size: samples in each; the user's own have the size that they have.
            random_inputs: one sample of random data, in the place of the model's inputs; None for these.

        Raises:
            InitializationError: there are none of this kind, they end, or one is not a pair of tensors.
        """
        source, batches = self._source(data, batch_size, random_inputs)
        self.record.conditions["data"] = source
        reference = reference_parameter(self.model)
        step = 0
        for step, batch in enumerate(batches, start=1):
            if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(map(torch.is_tensor, batch))):
                raise InitializationError(f"batches must give (inputs, targets), two tensors; batch {step} is not that")
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
"""What an initializer's factory returns. It sets values in place and never adds, removes or replaces a parameter."""
