"""What a task is: everything that training, tuners, probes and reports need to know of what is learned."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import TASKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from initbench.data.dataset import Dataset
    from initbench.metric import Metric
    from initbench.models.batches import Batch


class Task(ABC):
    """What is learned from a dataset.

    A batch is inputs and targets, whose first dimension is that of the samples. A subclass is registered with
    `register_task`; the core never asks which one it is.

    Attributes:
        name: the registered name.
        metrics: by which a model is judged on a split; one of them is primary and is the outcome of a trial.
        recipe_fields: the fields of a recipe that only some tasks can honour and this one does: ``mixup``,
            ``label_smoothing``.
    """

    name: ClassVar[str] = ""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    recipe_fields: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Refuse a task without exactly one primary metric.

        Raises:
            InitbenchError: it has none, or several.
        """
        super().__init_subclass__()
        if sum(metric.primary for metric in cls.metrics) != 1:
            raise InitbenchError(f"task {cls.__name__}: exactly one of its metrics must be primary")

    @property
    def primary(self) -> Metric:
        """The metric that is the outcome of a trial."""
        return next(metric for metric in self.metrics if metric.primary)

    def on(self, dataset: Dataset) -> Task:
        """Return the task as it is on a dataset: training, evaluation and chance levels take that.

        Args:
            dataset: what it says beside its samples, such as the bytes of its tokens, is for the task to read.
        """
        return self

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the samples, 0-dim and differentiable.

        Args:
            outputs: of the model.
            targets: of the batch.
        """

    def smoothed_loss(self, outputs: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the loss against smoothed targets, for a task whose `recipe_fields` have ``label_smoothing``."""
        raise NotImplementedError

    def reference_losses(self, outputs: int) -> dict[str, float]:
        """Return what the loss of an untrained model is compared with, by name.

        Args:
            outputs: how many a model has.
        """
        return {}

    def training_values(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return what is followed over an epoch beside the loss: means over a training batch by name, each 0-dim."""
        return {}

    def training_values_of(self, loss: Tensor) -> dict[str, Tensor] | None:
        """Return the training values from the mean loss of a batch alone, None where they take more than that.

        Over a large vocabulary it saves a part of each step, as the loss is already known.

        Args:
            loss: as `loss` returns it, 0-dim and detached.
        """
        return None

    @abstractmethod
    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over a batch by name, each 0-dim and on the device.

        They are added over the batches of a split in float64; `values` makes the metrics of them.
        """

    @abstractmethod
    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return the metrics by name.

        Args:
            totals: of a whole split.
            samples: in the split.
        """

    @abstractmethod
    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return what the best model that ignores its inputs would put out for one sample.

        Args:
            targets: of the training split, (N, ...).
            outputs: how many a model has.

        Returns:
            The outputs of one sample, without a batch dimension.
        """

    def constant_totals(self, predicted: Tensor, targets: Tensor) -> list[dict[str, float]]:
        """Return the totals of each sample by itself under the constant predictor, whose chance level they make.

        A task of which there are many different samples may compute them all at once.

        Args:
            predicted: what `constant_predictor` returned.
            targets: of different samples, (n, ...), on the CPU.
        """
        return [
            {name: float(total.double()) for name, total in self.totals(predicted[None], target[None]).items()}
            for target in targets
        ]

    def output_shape(self, inputs: Inputs, outputs: int) -> tuple[int, ...]:
        """Return the shape of a model's outputs for one sample."""
        return (outputs,)

    def inputs_for(self, shape: tuple[int, ...], outputs: int | None, example: Tensor | None = None) -> Inputs:
        """Return what one sample is, of a model that is not built by this library.

        Args:
            shape: of one sample.
            outputs: how many outputs the model has, where that is known.
            example: a batch of inputs; integers are tokens, of a vocabulary that ends with the largest of them.
        """
        tokens = example is not None and not example.is_floating_point()
        return Inputs(tuple(shape), int(example.max()) + 1 if tokens and example is not None else None)

    def check_outputs(self, outputs: Tensor, expected: int) -> None:  # noqa: B027 - most tasks have nothing to check
        """Raise an InitializationError where a model has too few outputs, of which a GPU's kernel would die."""

    def random_inputs(self, inputs: Inputs, samples: int, generator: torch.Generator) -> Tensor:
        """Return noise in the place of inputs: standard normal numbers, or uniform tokens, (samples, ...).

        It is drawn on the CPU in float32, so that every device and precision sees the same.
        """
        shape = (samples, *inputs.shape)
        if inputs.vocabulary is None:
            return torch.randn(shape, generator=generator, dtype=torch.float32)
        return torch.randint(inputs.vocabulary, shape, generator=generator)

    @abstractmethod
    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Return targets that have nothing to do with the inputs, (samples, ...), drawn on the CPU."""

    def random_batch(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Batch:
        """Return a batch for tuners and probes on random data: `random_inputs`, then `random_targets`."""
        return self.random_inputs(inputs, samples, generator), self.random_targets(outputs, samples, generator)

    def random_batches(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield batches of noise without end, see `random_batch`; MetaInit tunes with them (2019, Figure 2)."""
        while True:
            yield self.random_batch(inputs, outputs, samples, generator)

    def summary(
        self, evaluations: Sequence[Mapping[str, float]], first: Mapping[str, float] | None, split: str
    ) -> dict[str, float | None]:
        """Return further metrics of a whole training, by the name that they have in a record.

        Args:
            evaluations: the metrics of each evaluation, in order.
            first: those after the first epoch; None where there was no such evaluation.
            split: the name of the split that was evaluated.
        """
        name = self.primary.name
        known = [values[name] for values in evaluations if not math.isnan(values[name])]
        return {
            f"first_epoch_{name}": None if first is None else first[name],
            f"best_{split}_{name}": min(known, key=self.primary.oriented, default=None),
        }

    def summary_metrics(self, split: str, primary: Metric) -> tuple[Metric, ...]:
        """Return how the values of `summary` read.

        Args:
            split: the name of the split that was evaluated.
            primary: the primary metric, with its chance level on that split.
        """
        plain = replace(primary, primary=False)
        name, title = plain.name, plain.title
        return (
            replace(plain, name=f"first_epoch_{name}", label=f"first-epoch {title}"),
            replace(plain, name=f"best_{split}_{name}", label=f"best {split} {title}"),
        )


def find_task(name: str) -> Task:
    """Return a task by its registered name.

    Raises:
        UnknownNameError: no task has this name.
    """
    task: Task = TASKS.get(name).build({})
    return task
