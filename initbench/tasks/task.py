"""The interface of a task: everything that training, tuners, probes and reports need to know about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from initbench.errors import InitbenchError, InitializationError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.registry import TASKS

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset, Samples
    from initbench.models.batches import Batch


class Task(ABC):
    """A task to be learned from a dataset.

    A batch consists of inputs and targets, whose first dimension counts the samples. A subclass is registered with
    `register_task`; the core never asks which task it is.

    Attributes:
        name: the registered name.
        metrics: metrics that judge a model on a split; the primary one is the outcome of a trial.
        final_metrics: further metrics that are too slow for each evaluation, see `final`; none is primary.
        recipe_fields: fields of a recipe that this task supports but not every task does: ``mixup``,
            ``label_smoothing``, ``batch_tokens``.
    """

    name: ClassVar[str] = ""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    final_metrics: ClassVar[tuple[Metric, ...]] = ()
    recipe_fields: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Refuse a task without exactly one primary metric.

        Raises:
            InitbenchError: it has none, or several, or one among its final metrics.
        """
        super().__init_subclass__()
        if sum(metric.primary for metric in cls.metrics) != 1:
            raise InitbenchError(f"task {cls.__name__}: exactly one of its metrics must be primary")
        if any(metric.primary for metric in cls.final_metrics):
            raise InitbenchError(f"task {cls.__name__}: none of its final_metrics may be primary")

    @property
    def primary(self) -> Metric:
        """The metric that is the outcome of a trial."""
        return next(metric for metric in self.metrics if metric.primary)

    def on(self, dataset: Dataset) -> Task:
        """Return the task adapted to a dataset, for training, evaluation and chance levels.

        Args:
            dataset: may carry information besides its samples, such as the bytes of its tokens.
        """
        return self

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the samples, 0-dim and differentiable.

        Args:
            outputs: outputs of the model.
            targets: targets of the batch.
        """

    def weight(self, targets: Tensor) -> int | Tensor:
        """Return the number of entries that `loss` is the mean over, 0-dim if it is a tensor.

        Micro-batches of one step, and the batches of an epoch in the history, count by it.

        Args:
            targets: targets of the batch.
        """
        return len(targets)

    def smoothed_loss(self, outputs: Tensor, targets: Tensor, label_smoothing: float) -> Tensor:
        """Return the loss for smoothed targets; needed if `recipe_fields` contains ``label_smoothing``."""
        raise NotImplementedError

    def reference_losses(self, outputs: int) -> dict[str, float]:
        """Return reference values for the loss of an untrained model, by name.

        Args:
            outputs: number of outputs of a model.
        """
        return {}

    def training_values(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return values to follow over an epoch besides the loss: means over a training batch by name, each 0-dim."""
        return {}

    def training_values_of(self, loss: Tensor) -> dict[str, Tensor] | None:
        """Return the training values from only the mean loss of a batch, or None if they need more.

        This saves part of each step for a large vocabulary, because the loss is already known.

        Args:
            loss: result of `loss`, 0-dim and detached.
        """
        return None

    @abstractmethod
    def totals(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Return sums over a batch by name, each 0-dim and on the device.

        They are added in float64 over the batches of a split; `values` computes the metrics from them.
        """

    @abstractmethod
    def values(self, totals: Mapping[str, float], samples: int) -> dict[str, float]:
        """Return the metrics by name.

        Args:
            totals: totals of a whole split.
            samples: number of samples in the split.
        """

    def final(self, model: nn.Module, samples: Samples) -> dict[str, float]:
        """Return the `final_metrics` by name, without those that are not defined on these samples.

        This is called once, after the last step of a training that did not diverge; its time does not count as
        training time. These metrics select nothing, neither a learning rate nor an epoch.

        Args:
            model: the trained model, in evaluation mode.
            samples: the evaluated split.
        """
        return {}

    def signatures(self) -> dict[str, str]:
        """Return how final metrics are computed, by name, for the record: settings and versions that change values."""
        return {}

    @abstractmethod
    def constant_predictor(self, targets: Tensor, outputs: int) -> Tensor:
        """Return the output for one sample of the best model that ignores its inputs.

        Args:
            targets: targets of the split on which it is evaluated, (N, ...).
            outputs: number of outputs of a model.

        Returns:
            The outputs for one sample, without a batch dimension.
        """

    def constant_totals(self, predicted: Tensor, targets: Tensor) -> list[dict[str, float]]:
        """Return the totals of each sample separately under the constant predictor; they give the chance level.

        A task with many different samples may compute them all at once.

        Args:
            predicted: result of `constant_predictor`.
            targets: targets of different samples, (n, ...), on the CPU.
        """
        return [
            {name: float(total.double()) for name, total in self.totals(predicted[None], target[None]).items()}
            for target in targets
        ]

    def output_shape(self, inputs: Inputs, outputs: int) -> tuple[int, ...]:
        """Return the shape of a model's outputs for one sample."""
        return (outputs,)

    def inputs_for(self, shape: tuple[int, ...], outputs: int | None, example: Tensor | None = None) -> Inputs:
        """Return the description of one sample if the library did not build the model.

        Args:
            shape: shape of one sample.
            outputs: number of outputs of the model, if known.
            example: a batch of inputs; integers are tokens, and the largest is the last of the vocabulary.
        """
        tokens = example is not None and not example.is_floating_point()
        return Inputs(tuple(shape), int(example.max()) + 1 if tokens and example is not None else None)

    def check_outputs(self, outputs: Tensor, expected: int) -> None:  # noqa: B027 - most tasks have nothing to check
        """Raise an InitializationError if a model has too few outputs, which would crash a GPU kernel."""

    def joined(self, first: Batch, second: Batch) -> Batch:
        """Return the samples of two batches as one batch.

        A task whose samples may differ in shape from batch to batch, such as sentences, has its own.

        Args:
            first: inputs and targets.
            second: likewise.
        """
        return torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])

    def random_inputs(self, inputs: Inputs, samples: int, generator: torch.Generator) -> Tensor:
        """Return noise as inputs: standard normal numbers, or uniform tokens, (samples, ...).

        It is drawn on the CPU in float32, so that it is the same for every device and precision.
        """
        shape = (samples, *inputs.shape)
        if inputs.vocabulary is None:
            return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu")
        return torch.randint(inputs.vocabulary, shape, generator=generator, device="cpu")

    @abstractmethod
    def random_targets(self, outputs: int, samples: int, generator: torch.Generator) -> Tensor:
        """Return targets that are unrelated to the inputs, (samples, ...), drawn on the CPU."""

    def random_batch(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Batch:
        """Return a batch for tuners and probes on random data: `random_inputs`, then `random_targets`."""
        return self.random_inputs(inputs, samples, generator), self.random_targets(outputs, samples, generator)

    def random_batches(self, inputs: Inputs, outputs: int, samples: int, generator: torch.Generator) -> Iterator[Batch]:
        """Yield endless batches of noise, see `random_batch`; MetaInit tunes with them (2019, Figure 2)."""
        while True:
            yield self.random_batch(inputs, outputs, samples, generator)

    def summary(
        self, evaluations: Sequence[Mapping[str, float]], first: Mapping[str, float] | None, split: str
    ) -> dict[str, float | None]:
        """Return further metrics of a whole training, by their names in a record.

        Args:
            evaluations: the metrics of each evaluation, in order.
            first: the metrics after the first epoch; None without such an evaluation.
            split: the name of the evaluated split.
        """
        name = self.primary.name
        known = [values[name] for values in evaluations if not math.isnan(values[name])]
        return {
            f"first_epoch_{name}": None if first is None else first[name],
            f"best_{split}_{name}": min(known, key=self.primary.oriented, default=None),
        }

    def summary_metrics(self, split: str, primary: Metric) -> tuple[Metric, ...]:
        """Return the metrics of the values of `summary`.

        Args:
            split: the name of the evaluated split.
            primary: the primary metric, with its chance level on that split.
        """
        plain = replace(primary, primary=False)
        name, title = plain.name, plain.title
        return (
            replace(plain, name=f"first_epoch_{name}", label=f"first-epoch {title}"),
            replace(plain, name=f"best_{split}_{name}", label=f"best {split} {title}"),
        )


def check_logits(outputs: Tensor, expected: int) -> None:
    """Raise an InitializationError if outputs are not (N, tokens, vocabulary), or their vocabulary is too small."""
    if not torch.is_tensor(outputs) or outputs.dim() != 3:
        shape = tuple(outputs.shape) if torch.is_tensor(outputs) else type(outputs).__name__
        raise InitializationError(f"the model must give logits (batch, tokens, {expected}), but gives {shape}")
    if outputs.shape[2] < expected:
        raise InitializationError(f"the vocabulary is {expected}, but the model has {outputs.shape[2]} outputs")


def find_task(name: str) -> Task:
    """Return a task by its registered name.

    Raises:
        UnknownNameError: no task has this name.
    """
    task: Task = TASKS.get(name).build({})
    return task
