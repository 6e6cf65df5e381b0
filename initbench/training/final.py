"""Metrics that are too slow for each evaluation: measured once, after the last step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from initbench.data.dataset import Dataset
from initbench.json_values import json_values
from initbench.models.state import preserved
from initbench.tasks import find_task
from initbench.training.loop import TrainingResult
from initbench.training.precision import recipe_kernels
from initbench.training.recipe import Recipe
from initbench.training.run import EvaluatedSplit


def final_metrics(
    model: nn.Module, dataset: Dataset, recipe: Recipe, split: EvaluatedSplit, training: TrainingResult
) -> dict[str, Any]:
    """Return the task's final metrics of a trained model as ``<split>_<metric>``, in evaluation mode.

    Those that are missing are None with ``<name>_reason`` beside them: all if the training did not reach its end, and
    those that the task cannot measure on these data.

    Args:
        model: the trained model; not changed.
        dataset: the dataset it was trained on.
        recipe: its recipe, for the precision.
        split: the split that was evaluated.
        training: the result of the training.
    """
    task = find_task(dataset.task).on(dataset)
    reason = training.metrics.get(f"{split}_{task.primary.name}_reason")
    values: dict[str, float] = {}
    if reason is None:
        samples = getattr(dataset, split)
        autocast = torch.autocast(samples.device.type, torch.bfloat16, enabled=recipe.precision == "bf16")
        with preserved(model), recipe_kernels(recipe), autocast:
            values = task.final(model.eval(), samples)
        reason = "not defined on these data"
    metrics: dict[str, Any] = {}
    for name in [metric.name for metric in task.final_metrics]:
        key = f"{split}_{name}"
        metrics |= json_values({key: values[name]}) if name in values else {key: None, f"{key}_reason": reason}
    return metrics
