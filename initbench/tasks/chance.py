"""The chance level: what a model that ignores its inputs reaches, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from initbench.tasks.task import Task


def chance_levels(
    task: Task, training_targets: Tensor, targets: Tensor, outputs: int
) -> dict[str, tuple[float, float]]:
    """Return each metric of the best constant predictor, with its standard error over the samples evaluated.

    The predictor is fitted on the training split. The standard error is the jackknife's: with θ₋ᵢ the metric of all
    samples but the i-th, √((n - 1) / n · Σ (θ₋ᵢ - θ̄)²), which for a mean is s / √n (Efron & Tibshirani, An Introduction
    to the Bootstrap, 1993, equation 11.5). Totals are sums over samples, so that each θ₋ᵢ is exact; samples with equal
    targets share theirs.

    Args:
        task: whose metrics.
        training_targets: of the training split, (N, ...).
        targets: of the split that is evaluated, (n, ...); a sample may be a block of tokens.
        outputs: how many a model has.

    Returns:
        Metric name → (value, standard error); the latter is NaN below 2 samples.
    """
    predicted = task.constant_predictor(training_targets.cpu(), outputs)
    distinct, counts = torch.unique(targets.cpu(), dim=0, return_counts=True)
    each = task.constant_totals(predicted, distinct)
    numbers = counts.tolist()
    whole = {name: math.fsum(n * totals[name] for n, totals in zip(numbers, each, strict=True)) for name in each[0]}
    samples = len(targets)
    value = task.values(whole, samples)
    if samples < 2:
        return {name: (value[name], math.nan) for name in value}
    without = [task.values(_less(whole, totals), samples - 1) for totals in each]
    return {name: (value[name], _jackknife([w[name] for w in without], numbers)) for name in value}


def _less(whole: Mapping[str, float], part: Mapping[str, float]) -> dict[str, float]:
    return {name: whole[name] - part[name] for name in whole}


def _jackknife(values: list[float], counts: list[int]) -> float:
    n = sum(counts)
    mean = math.fsum(c * v for v, c in zip(values, counts, strict=True)) / n
    squares = math.fsum(c * (v - mean) ** 2 for v, c in zip(values, counts, strict=True))
    return math.sqrt((n - 1) / n * squares)
