"""The loss of a training batch and what is followed beside it: mixup's weights and label smoothing, for any task."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from initbench.data.batches import TrainingBatch
    from initbench.tasks import Task


def batch_loss(task: Task, outputs: Tensor, batch: TrainingBatch, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean loss over the samples of a batch, 0-dim.

    Under mixup it is λ times that of the targets plus 1 − λ times that of their partners (Zhang et al., mixup, 2018),
    which of a cross-entropy is that of the mixed one-hot targets.

    Args:
        task: whose loss.
        outputs: of the model, for N samples.
        batch: these N samples.
        label_smoothing: ε, for a task that has a smoothed loss.
    """

    def loss(targets: Tensor) -> Tensor:
        return task.smoothed_loss(outputs, targets, label_smoothing) if label_smoothing else task.loss(outputs, targets)

    value = loss(batch.targets)
    if batch.weight < 1:
        value = batch.weight * value + (1 - batch.weight) * loss(batch.partners)
    return value


def batch_values(task: Task, outputs: Tensor, batch: TrainingBatch, loss: Tensor | None = None) -> dict[str, Tensor]:
    """Return the task's training values, means over a batch by name, each 0-dim; under mixup weighted like the loss.

    Args:
        task: whose values.
        outputs: of the model, for N samples.
        batch: these N samples.
        loss: what `batch_loss` returned for them without label smoothing, detached, where that is known.
    """
    if loss is not None and (values := task.training_values_of(loss)) is not None:
        return values
    values = task.training_values(outputs, batch.targets)
    if batch.weight < 1:
        partners = task.training_values(outputs, batch.partners)
        values = {name: batch.weight * value + (1 - batch.weight) * partners[name] for name, value in values.items()}
    return values
