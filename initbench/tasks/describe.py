"""How the metrics of a trial read: a record explains itself, since reports load neither torch nor plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from initbench.json_values import json_values
from initbench.metric import Metric
from initbench.tasks.chance import chance_levels
from initbench.tasks.task import Task

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset

Levels = dict[str, tuple[float, float]]

# The chance levels on each split, for as long as a dataset is loaded: all trials on it share them.
_known: WeakKeyDictionary[Dataset, dict[str, Levels]] = WeakKeyDictionary()

# What is minimized, of a task that does not judge a model by it.
_TRAINING_LOSS = Metric("loss", "lower").on("train")


def describe_task(task: Task, dataset: Dataset, evaluated: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a record says of its metrics: the task, the primary metric, and each as plain data."""
    described: dict[str, Metric] = {_TRAINING_LOSS.name: _TRAINING_LOSS}
    with_chance: dict[str, Metric] = {}
    for split in ("test", "validation", "train"):
        chance = _chance(task, dataset, split) if split != "train" and f"{split}_{task.primary.name}" in metrics else {}
        for metric in task.metrics:
            value, error = chance.get(metric.name, (None, None))
            own = replace(metric, chance=value, chance_standard_error=error)
            if metric.primary:
                with_chance[split] = own
            described[own.on(split).name] = replace(own.on(split), primary=metric.primary and split == evaluated)
    described |= {metric.name: metric for metric in task.summary_metrics(evaluated, with_chance[evaluated])}
    return {
        "name": task.name,
        "primary": f"{evaluated}_{task.primary.name}",
        "metrics": {name: json_values(metric.to_json()) for name, metric in described.items() if name in metrics},
    }


def _chance(task: Task, dataset: Dataset, split: str) -> Levels:
    """Return the chance levels on a split; none where it is empty, as it may be where nothing is trained."""
    evaluated = getattr(dataset, split).targets
    if not len(evaluated) or not len(dataset.train):
        return {}
    known = _known.setdefault(dataset, {})
    if split not in known:
        known[split] = chance_levels(task.on(dataset), dataset.train.targets, evaluated, dataset.outputs)
    return known[split]
