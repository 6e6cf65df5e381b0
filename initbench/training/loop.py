"""Training a model by a recipe, on one device, without a host synchronization per step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from initbench.data.augmentation import Augmentation
from initbench.data.batches import Batch, TrainingBatches
from initbench.errors import DataError
from initbench.randomness import derive_seed
from initbench.training.checkpointing import checkpointed_blocks
from initbench.training.evaluate import evaluate
from initbench.training.loss import batch_error, batch_loss
from initbench.training.optimizer import make_optimizer
from initbench.training.precision import compute_logits
from initbench.training.schedule import lr_factor

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset
    from initbench.training.recipe import Recipe

# Steps between looks at the losses, each of which waits for the device. It does not change the result.
CHECK_EVERY = 50

Entry = dict[str, Any]
EvaluatedSplit = Literal["test", "validation"]
OnEpoch = Callable[[int, int, Entry], None]


@dataclass(frozen=True)
class TrainingResult:
    """What a training run gave.

    Attributes:
        history: one entry per epoch, and one per `history_every` steps where asked: ``step`` (steps taken), ``epoch``
            (epochs done; a fraction within an epoch), ``lr`` (of the last step), ``train_loss`` and ``train_error``
            (means over the epoch so far, of augmented data, in training mode, each batch before its own update: the
            loss that is minimized, with the smoothed targets of label smoothing; under mixup the error is weighted by
            λ like the loss), ``test_loss`` (plain cross-entropy) and ``test_error``.
        metrics: the outcome: see `train`.
        diverged: whether a loss was not finite.
    """

    history: list[Entry]
    metrics: dict[str, Any]
    diverged: bool


def train(
    model: nn.Module,
    dataset: Dataset,
    recipe: Recipe,
    seed: int,
    *,
    parameter_groups: Iterable[dict[str, Any]] | None = None,
    on_epoch: OnEpoch | None = None,
    evaluate_on: EvaluatedSplit = "test",
) -> TrainingResult:
    """Train a model in place and return how it went.

    The metrics are ``test_error``, ``test_loss``, ``train_error``, ``train_loss`` (of the last epoch),
    ``first_epoch_accuracy`` (test, after the first epoch), ``best_test_accuracy`` (over all evaluations),
    ``validation_error`` (where there is a validation split), ``diverged_at_step``, ``steps`` and ``parameters``.
    With ``evaluate_on="validation"`` the test split is not opened: all that is said of it here is of the validation
    split, in names too.

    A loss that is not finite ends the training. ``diverged_at_step`` is then the first step, from 0, whose loss is not
    finite, and what was not measured is None with ``<name>_reason`` beside it.

    Args:
        model: on the dataset's device; left in training mode.
        dataset: its three splits.
        recipe: how to train.
        seed: the trial's seed, of data order, augmentation and dropout.
        parameter_groups: for the optimizer, each with ``params`` and ``lr``; None for all parameters at `recipe.lr`.
        on_epoch: called after each epoch with the epochs done, the epochs of the recipe and the history entry.
        evaluate_on: the split that is evaluated after each epoch.

    Raises:
        DataError: the split to evaluate on is empty.
        InitbenchError: the recipe asks for activation checkpointing, and the model has no blocks.
    """
    if not len(getattr(dataset, evaluate_on)):
        raise DataError(f"dataset {dataset.name} has no {evaluate_on} samples to evaluate on")
    run = _Run(
        model=model,
        dataset=dataset,
        recipe=recipe,
        seed=seed,
        parameter_groups=parameter_groups,
        evaluate_on=evaluate_on,
    )
    diverged_at = None
    blocks = checkpointed_blocks(model) if recipe.activation_checkpointing else nullcontext()
    with _global_random_state(derive_seed(seed, "dropout"), dataset.train.inputs.device), blocks:
        try:
            run.train(on_epoch)
        except _DivergedError as diverged:
            diverged_at = diverged.step
    return TrainingResult(run.history, run.metrics(diverged_at), diverged_at is not None)


class _DivergedError(Exception):
    """A loss was not finite at `step`, counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        *,
        model: nn.Module,
        dataset: Dataset,
        recipe: Recipe,
        seed: int,
        parameter_groups: Iterable[dict[str, Any]] | None,
        evaluate_on: EvaluatedSplit,
    ) -> None:
        self.memory_format = torch.channels_last if recipe.channels_last else torch.contiguous_format
        self.model = model.to(memory_format=self.memory_format)
        self.dataset = dataset
        self.recipe = recipe
        self.evaluate_on: EvaluatedSplit = evaluate_on
        augmentation = Augmentation(recipe.crop, recipe.flip, recipe.cutout, recipe.mixup)
        self.batches = TrainingBatches(dataset.train, recipe.batch_size, augmentation, seed)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        groups = list(parameter_groups) if parameter_groups is not None else [{"params": self.parameters}]
        self.optimizer = make_optimizer(groups, recipe)
        self.initial_lrs = [group["lr"] for group in self.optimizer.param_groups]
        self.history: list[Entry] = []
        self.steps = 0
        self.lr = recipe.lr
        # Losses and errors that are still on the device, with the batch sizes, and the epoch's sums on the host.
        self.pending: list[tuple[Tensor, int]] = []
        self.loss_sum = self.error_sum = 0.0
        self.samples = 0
        self.validation_error: float | None = None

    def train(self, on_epoch: OnEpoch | None) -> None:
        """Train to the end, or until a loss is not finite."""
        self.model.train()
        every = self.recipe.history_every
        for epoch in range(1, self.recipe.epochs + 1):
            self.loss_sum = self.error_sum = 0.0
            self.samples = 0
            for index, batch in enumerate(self.batches.epoch(), start=1):
                self.step(batch)
                last = index == len(self.batches)
                if last or (every and self.steps % every == 0):
                    self.record(epoch if last else epoch - 1 + index / len(self.batches))
                elif self.steps % CHECK_EVERY == 0:
                    self.collect()
            if on_epoch is not None:
                on_epoch(epoch, self.recipe.epochs, dict(self.history[-1]))
        if self.evaluate_on == "test" and len(self.dataset.validation):
            self.validation_error = self.evaluate("validation")[1]

    def step(self, batch: Batch) -> None:
        """Take one step and keep its loss and error on the device."""
        factor = lr_factor(self.recipe, self.steps, len(self.batches))
        for group, initial in zip(self.optimizer.param_groups, self.initial_lrs, strict=True):
            group["lr"] = initial * factor
        self.lr = self.recipe.lr * factor
        self.optimizer.zero_grad(set_to_none=True)
        inputs = batch.inputs.contiguous(memory_format=self.memory_format)
        logits = compute_logits(self.model, inputs, self.recipe.precision)
        loss = batch_loss(logits, batch, self.recipe.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip_norm)
        self.optimizer.step()
        with torch.no_grad():
            self.pending.append((torch.stack([loss, batch_error(logits, batch).to(loss.dtype)]), len(batch.targets)))
        self.steps += 1

    def collect(self) -> None:
        """Bring the losses of the latest steps to the host and look at them.

        Raises:
            _DivergedError: one is not finite.
        """
        sizes = [size for _, size in self.pending]
        first = self.steps - len(sizes)
        values = torch.stack([value for value, _ in self.pending]).tolist() if sizes else []
        self.pending.clear()
        for index, ((loss, error), size) in enumerate(zip(values, sizes, strict=True)):
            if not math.isfinite(loss):
                self.steps = first + index
                raise _DivergedError(self.steps)
            self.loss_sum += loss * size
            self.error_sum += error * size
            self.samples += size

    def record(self, epoch: float) -> None:
        """Evaluate and add an entry to the history.

        Raises:
            _DivergedError: a loss of training or evaluation is not finite.
        """
        self.collect()
        loss, error = self.evaluate(self.evaluate_on)
        self.history.append(
            {
                "step": self.steps,
                "epoch": epoch,
                "lr": self.lr,
                "train_loss": self.loss_sum / self.samples,
                "train_error": self.error_sum / self.samples,
                f"{self.evaluate_on}_loss": loss,
                f"{self.evaluate_on}_error": error,
            }
        )

    def evaluate(self, name: EvaluatedSplit) -> tuple[float, float]:
        """Return loss and error on a split.

        Raises:
            _DivergedError: the loss is not finite: the next step, `steps`, would have been the first to show it.
        """
        recipe = self.recipe
        loss, error = evaluate(
            self.model, getattr(self.dataset, name), channels_last=recipe.channels_last, precision=recipe.precision
        )
        if not math.isfinite(loss):
            raise _DivergedError(self.steps)
        return loss, error

    def metrics(self, diverged_at: int | None) -> dict[str, Any]:
        """Return the metrics; see `train`."""
        name = self.evaluate_on
        errors = [entry[f"{name}_error"] for entry in self.history]
        first = [entry[f"{name}_error"] for entry in self.history if entry["epoch"] == 1]
        final = self.history[-1] if diverged_at is None else {}
        metrics: dict[str, Any] = {
            key: final.get(key) for key in (f"{name}_error", f"{name}_loss", "train_error", "train_loss")
        }
        metrics["first_epoch_accuracy"] = 1 - first[0] if first else None
        metrics[f"best_{name}_accuracy"] = 1 - min(errors) if errors else None
        if name == "test" and len(self.dataset.validation):
            metrics["validation_error"] = self.validation_error
        if diverged_at is not None:
            missing = [key for key, value in metrics.items() if value is None]
            metrics |= {f"{key}_reason": f"diverged at step {diverged_at}" for key in missing}
        return metrics | {
            "diverged_at_step": diverged_at,
            "steps": self.steps,
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }


@contextmanager
def _global_random_state(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators of the CPU and of the device, and restore the caller's at the end."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
