"""What an initializer is given, and the record of what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import nn

from initbench import randomness
from initbench.batches import Batch, DataKind, LossFunction, move, random_batches, reference_parameter
from initbench.errors import InitializationError
from initbench.json_values import json_values


@dataclass
class InitializationRecord:
    """What an initialization did.

    Attributes:
        initializer: registered name.
        arguments: all its arguments.
        base: a tuner's base, ``{"name": ..., arguments}``; None where it took the model as it was.
        seed: the trial's seed.
        tensors: what was done to each parameter, in order, such as ``drawn: kaiming normal, std 0.1179``, ``zeroed``,
            ``scaled by 0.43``, ``untouched``, ``untouched: frozen``, ``tied to embedding.weight``.
        history: per step of a tuner, its objective and the like.
        conditions: under which a tuner worked.
        cost: numbers of ``forward`` and ``backward`` passes over a batch.
        seconds: wall-clock time.
        learning_rate_multipliers: by parameter name; 1 where there is none.
    """

    initializer: str
    arguments: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] | None = None
    seed: int = 0
    tensors: dict[str, list[str]] = field(default_factory=dict)
    history: list[dict[str, float | None]] = field(default_factory=list)
    conditions: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, int] = field(default_factory=lambda: {"forward": 0, "backward": 0})
    seconds: float = 0.0
    learning_rate_multipliers: dict[str, float] = field(default_factory=dict)
    _parameters: dict[str, nn.Parameter] = field(default_factory=dict, repr=False, compare=False)

    def note(self, name: str, what: str) -> None:
        """Add what was done to a parameter."""
        self.tensors.setdefault(name, []).append(what)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Return parameter groups for an optimizer, one per learning-rate multiplier, frozen parameters left out.

        Args:
            lr: the learning rate of parameters without a multiplier.
        """
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self._parameters.items():
            if parameter.requires_grad:
                groups.setdefault(self.learning_rate_multipliers.get(name, 1.0), []).append(parameter)
        return [{"params": parameters, "lr": lr * multiplier} for multiplier, parameters in groups.items()]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; non-finite numbers are None with a reason beside them (see `json_values`)."""
        fields = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        result: dict[str, Any] = json_values(fields)
        return result


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
        input_shape: (batch, ...), for images (batch, channels, height, width); None where it is not known.
        num_classes: number of classes; None where it is not known.
        loss_fn: mean loss of a batch from (outputs, targets).
        optimizer: what the model will be trained with.
        given_batches: the user's batches, which replace generated and real ones.
        real_batches: batches of the training split.
    """

    model: nn.Module
    record: InitializationRecord
    seed: int = 0
    input_shape: tuple[int, ...] | None = None
    num_classes: int | None = None
    loss_fn: LossFunction = F.cross_entropy
    optimizer: Optimizer = field(default_factory=Optimizer)
    given_batches: Iterable[Batch] | None = None
    real_batches: Iterable[Batch] | None = None

    def generator(self, key: str) -> torch.Generator:
        """Return a CPU generator at the start of the stream (seed, ``weights``, key).

        Args:
            key: the parameter's name, so that a parameter that is added shifts no other draw.
        """
        return randomness.generator(self.seed, "weights", key)

    def batches(self, data: DataKind = "random") -> Iterator[Batch]:
        """Yield batches (inputs, targets) without end, from the first, and record where they come from.

        Args:
            data: ``random`` noise (see `random_batches`) or ``real`` data; the user's own replace both.

        Raises:
            InitializationError: there are none of this kind, they end, or one is not a pair of tensors.
        """
        source, batches = self._source(data)
        self.record.conditions["data"] = source
        like = reference_parameter(self.model)
        step = 0
        for step, batch in enumerate(batches, start=1):
            if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(map(torch.is_tensor, batch))):
                raise InitializationError(f"batches must give (inputs, targets), two tensors; batch {step} is not that")
            yield move((batch[0], batch[1]), like)
        raise InitializationError(f"batches ended early: step {step + 1} needs one, {step} were given")

    def _source(self, data: DataKind) -> tuple[str, Iterable[Batch]]:
        if self.given_batches is not None:
            return "given", self.given_batches
        if data == "real":
            if self.real_batches is None:
                raise InitializationError(f"{self.record.initializer} needs real data: give batches or real_batches")
            return "real", self.real_batches
        if self.input_shape is None or self.num_classes is None:
            raise InitializationError(
                f"{self.record.initializer} draws random batches: give input_shape and num_classes, or batches"
            )
        order = randomness.generator(self.seed, "tuner_batches")
        return "random", random_batches(self.input_shape, self.num_classes, order)


Apply = Callable[[nn.Module, InitializationContext], None]
"""What an initializer's factory returns. It sets values in place and never adds, removes or replaces a parameter."""
