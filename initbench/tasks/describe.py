"""The metrics of a trial as plain data, with the chance levels that a model without regard to its inputs reaches.

A record contains all of this because reports load neither torch nor plug-ins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from initbench.json_values import json_values
from initbench.metric import Metric
from initbench.tasks.task import Task

if TYPE_CHECKING:
    from initbench.data.dataset import Dataset


def chance_levels(task: Task, targets: Tensor, outputs: int) -> dict[str, tuple[float, float]]:
    """Return each metric of the best constant predictor of a split, with its standard error over the samples.

    The predictor is fitted on the split itself, so it is at least as good as one fitted on the training split and as a
    uniform one. With a predictor from elsewhere, a network could beat chance by a constant answer.

    The standard error is the jackknife's: with θ₋ᵢ the metric of all samples but the i-th, √((n - 1) / n · Σ (θ₋ᵢ -
    θ̄)²), which for a mean is s / √n (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, equation 11.5). Totals
    are sums over samples, so each θ₋ᵢ is exact; samples with equal targets share theirs. For a share v, it is at least
    √(p (1 - p) / n) with p = (n v + 1) / (n + 2), because no share of a finite sample is certain.

    Args:
        task: the task that defines the metrics.
        targets: targets of the evaluated split, (n, ...); a sample may be a block of tokens.
        outputs: number of outputs of a model.

    Returns:
        Metric name → (value, standard error); the latter is NaN for fewer than 2 samples.
    """
    predicted = task.constant_predictor(targets.cpu(), outputs)
    distinct, counts = torch.unique(targets.cpu(), dim=0, return_counts=True)
    each = task.constant_totals(predicted, distinct)
    numbers = counts.tolist()
    whole = {name: math.fsum(n * totals[name] for n, totals in zip(numbers, each, strict=True)) for name in each[0]}
    samples = len(targets)
    value = task.values(whole, samples)
    if samples < 2:
        return {name: (value[name], math.nan) for name in value}
    without = [task.values(_less(whole, totals), samples - 1) for totals in each]
    errors = {name: _jackknife([w[name] for w in without], numbers) for name in value}
    for metric in task.metrics:
        if metric.largest_difference == 1:
            share = (samples * value[metric.name] + 1) / (samples + 2)
            errors[metric.name] = max(errors[metric.name], math.sqrt(share * (1 - share) / samples))
    return {name: (value[name], errors[name]) for name in value}


def _less(whole: Mapping[str, float], part: Mapping[str, float]) -> dict[str, float]:
    return {name: whole[name] - part[name] for name in whole}


def _jackknife(values: list[float], counts: list[int]) -> float:
    n = sum(counts)
    mean = math.fsum(c * v for v, c in zip(values, counts, strict=True)) / n
    squares = math.fsum(c * (v - mean) ** 2 for v, c in zip(values, counts, strict=True))
    return math.sqrt((n - 1) / n * squares)


Levels = dict[str, tuple[float, float]]

# The chance levels on each split while a dataset is loaded; all its trials share them.
_known: WeakKeyDictionary[Dataset, dict[str, Levels]] = WeakKeyDictionary()

# The minimized loss, for a task whose metrics do not include it.
_TRAINING_LOSS = Metric("loss", "lower").on("train")


def describe_task(task: Task, dataset: Dataset, evaluated: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's description of its metrics: the task, the primary metric, and each metric as plain data."""
    described: dict[str, Metric] = {_TRAINING_LOSS.name: _TRAINING_LOSS}
    with_chance: dict[str, Metric] = {}
    for split in ("test", "validation", "train"):
        chance = _chance(task, dataset, split) if split != "train" and f"{split}_{task.primary.name}" in metrics else {}
        for metric in task.metrics:
            value, error = chance.get(metric.name, (None, None))
            with_level = replace(metric, chance=value, chance_standard_error=error)
            if metric.primary:
                with_chance[split] = with_level
            described[with_level.on(split).name] = replace(
                with_level.on(split), primary=metric.primary and split == evaluated
            )
    described |= {metric.name: metric for metric in task.summary_metrics(evaluated, with_chance[evaluated])}
    described |= {metric.name: metric for metric in (metric.on(evaluated) for metric in task.final_metrics)}
    description = {
        "name": task.name,
        "primary": f"{evaluated}_{task.primary.name}",
        "metrics": {name: json_values(metric.to_json()) for name, metric in described.items() if name in metrics},
    }
    measured = [m.name for m in task.final_metrics if metrics.get(f"{evaluated}_{m.name}") is not None]
    if measured:
        signatures = task.signatures()
        description["signatures"] = {f"{evaluated}_{name}": signatures[name] for name in measured if name in signatures}
    return description


def _chance(task: Task, dataset: Dataset, split: str) -> Levels:
    """Return the chance levels on a split; empty if the split is, which may happen if nothing is trained."""
    targets = getattr(dataset, split).targets
    if not len(targets):
        return {}
    known = _known.setdefault(dataset, {})
    if split not in known:
        known[split] = chance_levels(task.on(dataset), targets, dataset.outputs)
    return known[split]
