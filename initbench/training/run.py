"""One training run: its loss, steps, evaluations and results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatch, TrainingBatches
from initbench.data.dataset import Dataset, Samples
from initbench.inputs import Inputs
from initbench.json_values import json_values
from initbench.models.state import forgetful
from initbench.tasks import Task
from initbench.training.optimizer import Multipliers, Schedule, make_optimizer, make_parameter_groups
from initbench.training.precision import compute_outputs
from initbench.training.recipe import Precision, Recipe

# Steps between checks of the losses, each of which waits for the device. It does not change the result.
CHECK_EVERY = 50
# Pixels of the images in a forward pass, such as 1,024 images of 32×32, or tokens: equal work and memory for samples of
# any size.
POSITIONS_PER_BATCH = 2**20
# Outputs of a forward pass: each token may have one per entry of the vocabulary.
OUTPUTS_PER_BATCH = 2**26
# How much larger batches are on a GPU, where a pass over a small one takes as long as launching its kernels. Free
# memory must not decide this, because the batch size changes the last digits. At 4, an activation of WRN-28-10 on CIFAR
# takes 2.7 GB.
GPU_FACTOR = 4

Entry = dict[str, Any]
EvaluatedSplit = Literal["test", "validation"]


def evaluation_batch_size(task: Task, inputs: Inputs, outputs: int, device: torch.device) -> int:
    factor = 1 if device.type == "cpu" else GPU_FACTOR
    numbers = math.prod(task.output_shape(inputs, outputs))
    return max(1, min(factor * POSITIONS_PER_BATCH // inputs.positions, factor * OUTPUTS_PER_BATCH // numbers))


@torch.inference_mode()
def split_totals(
    model: nn.Module,
    split: Samples,
    task: Task,
    batch_size: int,
    *,
    channels_last: bool = False,
    precision: Precision = "fp32",
) -> dict[str, float]:
    """Return a task's totals over a split, in evaluation mode: exact for counts.

    The mode of every module is restored. The batch size changes the last digits of floating-point totals.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    names: list[str] = []
    sums = []
    try:
        parts = (slice(start, start + batch_size) for start in range(0, len(split), batch_size))
        with forgetful(model):
            for inputs, targets in split.batches(parts):
                outputs = compute_outputs(model, inputs.contiguous(memory_format=memory_format), precision)
                totals = task.totals(outputs, targets)
                names = list(totals)
                sums.append(torch.stack([total.double() for total in totals.values()]))
    finally:
        for module, training in modes:
            module.training = training
    # The batches' totals leave the device together and are added in float64.
    return dict(zip(names, torch.stack(sums).cpu().sum(0).tolist(), strict=True))


def batch_loss(task: Task, outputs: Tensor, batch: TrainingBatch, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean loss over the samples of a batch, 0-dim.

    Under mixup it is λ times the loss for the targets plus 1 − λ times the loss for their partners (Zhang et al.,
    mixup, 2018); for a cross-entropy that equals the loss for the mixed one-hot targets.
    """

    def loss(targets: Tensor) -> Tensor:
        return task.smoothed_loss(outputs, targets, label_smoothing) if label_smoothing else task.loss(outputs, targets)

    value = loss(batch.targets)
    if batch.weight < 1:
        value = batch.weight * value + (1 - batch.weight) * loss(batch.partners)
    return value


def batch_values(task: Task, outputs: Tensor, batch: TrainingBatch, loss: Tensor | None = None) -> dict[str, Tensor]:
    """Return the task's training values, means over a batch by name, each 0-dim; under mixup weighted like the loss.

    `loss` is the detached result of `batch_loss` for the batch without label smoothing, if known.
    """
    if loss is not None and (values := task.training_values_of(loss)) is not None:
        return values
    values = task.training_values(outputs, batch.targets)
    if batch.weight < 1:
        partners = task.training_values(outputs, batch.partners)
        values = {name: batch.weight * value + (1 - batch.weight) * partners[name] for name, value in values.items()}
    return values


class DivergedError(Exception):
    """A loss was not finite at `step`, counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


class Checkpoints(Protocol):
    """Storage for a training run; `state` is the state to continue from, None to start at the beginning."""

    state: dict[str, Any] | None

    def due(self, epoch: int | None = None, *, last: bool = False) -> bool:
        """Return whether to keep the run in its current state.

        `epoch` is the epoch that has just ended, counted from 1; None within an epoch and before the first. `last` is
        true if no step is left.
        """

    def save(self, run: TrainingRun) -> None:
        """Keep the run; a failure to do so must not end it."""


class TrainingRun:
    """The state of one training run: model, optimizer, scheduler, random streams and history in one place.

    A checkpoint contains this and the global random stream, which dropout uses; see `initbench.training.checkpoint`.

    Attributes:
        evaluations: the metrics of each evaluation so far.
        first: the metrics after the first epoch.
        samples: samples in the steps taken so far.
        seconds: time of these steps, without evaluation.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        task: Task,
        dataset: Dataset,
        recipe: Recipe,
        seed: int,
        multipliers: Multipliers,
        evaluate_on: EvaluatedSplit,
    ) -> None:
        self.memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.model = model.to(memory_format=self.memory_format)
        self.compute: Callable[[Tensor], Any] = self.model
        if recipe.compile and recipe.trains:
            torch.compiler.reset()  # Earlier models count towards the limit after which nothing is compiled.
            self.compute = torch.compile(self.model, dynamic=False)
        self.task = task
        self.dataset = dataset
        self.recipe = recipe
        self.evaluate_on: EvaluatedSplit = evaluate_on
        augmentation = Augmentation(recipe.crop, recipe.flip, recipe.cutout, recipe.mixup, recipe.random_resized_crop)
        self.batches = TrainingBatches(
            dataset.train, recipe.batch_size, augmentation, seed, batch_tokens=recipe.batch_tokens
        )
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(make_parameter_groups(model, recipe, multipliers), recipe)
        self.schedule = Schedule(recipe, len(self.batches))
        self.scheduler = LambdaLR(self.optimizer, self.schedule.factor)
        self.history: list[Entry] = []
        self.evaluations: list[dict[str, float]] = []
        self.first: dict[str, float] | None = None
        self.validation: float | None = None
        self.steps = self.samples = 0
        self.seconds = 0.0
        # Values of training steps still on the device, with the batches' weights, and the epoch's sums on the host. A
        # weight is a number of samples, or of target tokens; the sum has a name that older checkpoints have, too.
        self.names: list[str] = []
        self.pending: list[tuple[Tensor, int | Tensor]] = []
        self.sums: dict[str, float] = {}
        self.epoch_samples = 0

    def train(self, on_epoch: Callable[[int, int], None] | None, checkpoints: Checkpoints | None = None) -> None:
        """Train to the end, or until a loss is not finite; a restored run continues where it was."""
        self.model.train()
        if not self.recipe.trains:
            return
        if checkpoints is not None and checkpoints.due():  # the initialization may have taken long
            checkpoints.save(self)
        while self.steps < self.schedule.steps:
            epoch = self.steps // len(self.batches) + 1
            self.train_epoch(epoch, checkpoints)
            if on_epoch is not None:
                on_epoch(epoch, self.schedule.epochs)
        if self.evaluate_on == "test" and len(self.dataset.validation):
            self.validation = self.evaluate("validation")[self.task.primary.name]

    def train_epoch(self, epoch: int, checkpoints: Checkpoints | None = None) -> None:
        """Train one epoch, counted from 1, as far as steps and batches are left."""
        history_every, evaluate_every = self.recipe.history_every, self.recipe.evaluate_every
        before, samples = self.steps % len(self.batches), 0
        if not before:
            self.sums.clear()
            self.epoch_samples = 0
        started = time.perf_counter()
        for index, batch in enumerate(self.batches.epoch(), start=before + 1):
            self.step(batch)
            samples += len(batch)
            whole, last = index == len(self.batches), self.steps == self.schedule.steps
            kept = whole or last or (history_every is not None and self.steps % history_every == 0)
            evaluated = last or (kept if evaluate_every is None else self.steps % evaluate_every == 0)
            if kept or evaluated:
                self.collect()
                self.seconds += time.perf_counter() - started
                self.samples += samples
                self.record(epoch if whole else epoch - 1 + index / len(self.batches), evaluated=evaluated)
                started, samples = time.perf_counter(), 0
            elif self.steps % CHECK_EVERY == 0:
                self.collect()
            if checkpoints is not None and checkpoints.due(epoch if whole else None, last=last):
                self.collect()
                self.seconds += time.perf_counter() - started
                self.samples += samples
                checkpoints.save(self)
                started, samples = time.perf_counter(), 0
            if last:
                break

    def step(self, batch: TrainingBatch) -> None:
        """Take one step and keep its values on the device."""
        self.optimizer.zero_grad(set_to_none=True)
        parts = self.micro_batches(batch)
        weight = self.task.weight(batch.targets)
        whole = weight if len(parts) > 1 else None
        values = self.backward(parts[0], whole)
        for part in parts[1:]:
            values = values + self.backward(part, whole)
        if self.recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.optimizer.step()
        self.scheduler.step()
        self.pending.append((values, weight))
        self.steps += 1

    def micro_batches(self, batch: TrainingBatch) -> list[TrainingBatch]:
        """Return the micro-batches of a step; a smaller batch has fewer, so that none has a single sample."""
        parts, batch_size = self.recipe.accumulate, self.recipe.batch_size
        if parts == 1:
            return [batch]
        if self.recipe.batch_tokens is not None:
            return batch.split(min(parts, len(batch)))
        least = 2 if batch_size >= 2 * parts else 1
        fewer = -(-len(batch) * parts // batch_size)
        return batch.split(max(1, min(parts, fewer, len(batch) // least)))

    def backward(self, batch: TrainingBatch, whole: int | Tensor | None) -> Tensor:
        """Add a share of the gradient of the mean loss; return that share of the loss and of the training values.

        `whole` is the weight of the batch that this is a micro-batch of; None if it is not split.
        """
        inputs = batch.inputs.contiguous(memory_format=self.memory_format)
        outputs = compute_outputs(self.compute, inputs, self.recipe.precision)
        loss = batch_loss(self.task, outputs, batch, self.recipe.label_smoothing)
        plain = None if self.recipe.label_smoothing else loss.detach()
        share = None if whole is None else _share(self.task.weight(batch.targets), whole, loss.dtype)
        if share is not None:
            loss = share * loss
        loss.backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            values = batch_values(self.task, outputs, batch, plain)
            self.names = ["loss", *values]
            rest = [value.to(loss.dtype) for value in values.values()]
            return torch.stack([loss, *(value if share is None else share * value for value in rest)])

    def collect(self) -> None:
        """Bring the values of the latest steps to the host and check their losses."""
        first = self.steps - len(self.pending)
        rows = torch.stack([values for values, _ in self.pending]).tolist() if self.pending else []
        weights = [int(weight) for _, weight in self.pending]
        self.pending.clear()
        for index, (row, weight) in enumerate(zip(rows, weights, strict=True)):
            if not math.isfinite(row[0]):
                self.steps = first + index
                raise DivergedError(self.steps)
            for name, value in zip(self.names, row, strict=True):
                self.sums[name] = self.sums.get(name, 0.0) + value * weight
            self.epoch_samples += weight

    def record(self, epoch: float, *, evaluated: bool) -> None:
        """Add an entry to the history; `epoch` is the number of epochs done."""
        values: dict[str, float] = {}
        if evaluated:
            values = self.evaluate(self.evaluate_on)
            self.evaluations.append(values)
            if epoch == 1:
                self.first = values
        # The rate of the step just taken; the scheduler is already at the next one.
        lr = self.recipe.lr * self.schedule.factor(self.steps - 1)
        entry = {"step": self.steps, "epoch": epoch, "lr": lr}
        entry |= {f"train_{name}": total / self.epoch_samples for name, total in self.sums.items()}
        self.history.append(json_values(entry | {f"{self.evaluate_on}_{name}": x for name, x in values.items()}))

    def evaluate(self, name: EvaluatedSplit) -> dict[str, float]:
        """Return the metrics on a split; a total that is not finite counts as divergence."""
        task, recipe, split = self.task, self.recipe, getattr(self.dataset, name)
        batch_size = evaluation_batch_size(task, self.dataset.inputs, self.dataset.outputs, split.device)
        totals = split_totals(
            self.model, split, task, batch_size, channels_last=recipe.channels_last, precision=recipe.precision
        )
        if not all(map(math.isfinite, totals.values())):
            raise DivergedError(self.steps)
        return task.values(totals, len(split))

    def metrics(self, diverged_at: int | None) -> dict[str, Any]:
        """Return the outcome; missing values are None with ``<name>_reason`` beside them. See `train`."""
        split, task = self.evaluate_on, self.task
        # If the training did not reach its end, nothing is final.
        final = self.history[-1] if self.history and diverged_at is None else {}
        names = [f"{split}_{metric.name}" for metric in task.metrics]
        names += [f"train_{name}" for name in self.names or ["loss"]]
        metrics: dict[str, Any] = {name: final.get(name) for name in names}
        metrics |= json_values(task.summary(self.evaluations, self.first, split))
        if split == "test" and len(self.dataset.validation):
            metrics |= json_values({f"validation_{task.primary.name}": self.validation})
        reason = "not evaluated" if self.recipe.trains else "not trained"
        if diverged_at is not None:
            reason = f"diverged at step {diverged_at}"
        for name in [name for name, value in metrics.items() if value is None]:
            metrics.setdefault(f"{name}_reason", final.get(f"{name}_reason", reason))
        return metrics | {
            "diverged_at_step": diverged_at,
            "steps": self.steps,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }

    def speed(self) -> dict[str, float]:
        """Return samples, and tokens of texts of one length, per second of training steps; empty if there were none."""
        if not self.seconds:
            return {}
        samples, inputs = self.samples / self.seconds, self.dataset.inputs
        has_tokens = inputs.vocabulary is not None and self.dataset.train.lengths is None
        tokens = {"tokens_per_second": samples * inputs.positions} if has_tokens else {}
        return {"samples_per_second": samples} | tokens


def _share(part: int | Tensor, whole: int | Tensor, dtype: torch.dtype) -> float | Tensor:
    return part.to(dtype) / whole if isinstance(part, Tensor) else part / whole
