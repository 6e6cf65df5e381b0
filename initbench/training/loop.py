"""Train a model by a recipe, on one device, without a host synchronization per step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from initbench.data.dataset import Dataset
from initbench.errors import DataError, InitbenchError
from initbench.models.state import forked_rng
from initbench.tasks import find_task
from initbench.training.checkpoint import restore
from initbench.training.checkpointing import checkpointed_blocks
from initbench.training.optimizer import Multipliers
from initbench.training.precision import recipe_kernels
from initbench.training.recipe import Recipe
from initbench.training.refusals import ModelTraits, check_sentences, data_refusal, model_refusal
from initbench.training.run import Checkpoints, DivergedError, Entry, EvaluatedSplit, TrainingRun


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run.

    Attributes:
        history: one entry per epoch, one at the last step, and one per `history_every` steps if requested: ``step``
            (steps taken), ``epoch`` (epochs done; a fraction within an epoch), ``lr`` (of the last step),
            ``train_loss`` and the task's other training values as ``train_<name>``, and after an evaluation the task's
            metrics as ``<split>_<metric>``. Training values are means over the epoch so far, of augmented data, in
            training mode, each batch before its own update; the loss is the one that is minimized, with smoothed
            targets under label smoothing; under mixup all values are weighted by λ.
        metrics: the outcome, see `train`.
        diverged: whether a loss was not finite.
        speed: ``samples_per_second`` of the training steps, without evaluation, and for texts of one length
            ``tokens_per_second``; empty if no epoch was completed. Not reproducible, and not compared.
    """

    history: list[Entry]
    metrics: dict[str, Any]
    diverged: bool
    speed: dict[str, float] = field(default_factory=dict, compare=False)


def train(
    model: nn.Module,
    dataset: Dataset,
    recipe: Recipe,
    seed: int,
    *,
    declared: Multipliers | None = None,
    on_epoch: Callable[[int, int], None] | None = None,
    evaluate_on: EvaluatedSplit = "test",
    checkpoints: Checkpoints | None = None,
) -> TrainingResult:
    """Train a model in place and return the result.

    The metrics are the task's metrics on the test split as ``test_<metric>``, the training values of the last epoch as
    ``train_<name>``, the task's summary of all evaluations, the primary metric on the validation split, if it has
    samples, as ``validation_<metric>``, ``diverged_at_step``, ``steps`` and ``parameters``. With
    ``evaluate_on="validation"`` the test split is not opened: the validation split replaces it everywhere above,
    including the names.

    A loss that is not finite ends the training. ``diverged_at_step`` is then the first step, counted from 0, with such
    a loss, and missing values are None with ``<name>_reason`` beside them. The same holds after 0 epochs, when nothing
    is evaluated.

    Args:
        model: on the dataset's device; left in training mode.
        dataset: its three splits, and its task.
        recipe: how to train.
        seed: the trial's seed, for data order, augmentation and dropout.
        declared: the initializer's multipliers; None for none. The recipe's multipliers for roles take precedence, see
            `initbench.training.optimizer`.
        on_epoch: called after each epoch, even if it is cut short, with the epochs begun so far and the total number of
            epochs.
        evaluate_on: the split that is evaluated.
        checkpoints: where the run is kept and what it continues from; None to keep nothing.

    Raises:
        ArgumentError: a training sentence does not fit into a batch of ``batch_tokens``.
        CheckpointError: the checkpoint does not fit the run; model and streams must not be used afterwards.
        DataError: the split to evaluate on is empty.
        InitbenchError: the recipe cannot train this model on this task (see `initbench.training.refusals`).
    """
    if recipe.trains and not len(getattr(dataset, evaluate_on)):
        raise DataError(f"dataset {dataset.name} has no {evaluate_on} samples to evaluate on")
    task = find_task(dataset.task).on(dataset)
    reason = data_refusal(recipe, task, dataset.inputs) or model_refusal(recipe, ModelTraits.of(model))
    if reason is not None:
        raise InitbenchError(reason)
    check_sentences(recipe, dataset.train)
    run = TrainingRun(
        model=model,
        task=task,
        dataset=dataset,
        recipe=recipe,
        seed=seed,
        multipliers=declared or Multipliers(),
        evaluate_on=evaluate_on,
    )
    diverged_at = None
    blocks = checkpointed_blocks(model) if recipe.activation_checkpointing and recipe.trains else nullcontext()
    with forked_rng(model, seed), blocks, recipe_kernels(recipe):
        if checkpoints is not None and checkpoints.state is not None:
            restore(run, checkpoints.state)
        try:
            run.train(on_epoch, checkpoints)
        except DivergedError as diverged:
            diverged_at = diverged.step
    return TrainingResult(run.history, run.metrics(diverged_at), diverged_at is not None, run.speed())
