"""Classification against its definitions."""

from __future__ import annotations

import math

import pytest
import torch

from initbench.errors import InitializationError
from initbench.inputs import Inputs
from initbench.tasks import Task, find_task

N, CLASSES = 50, 5
TASK = find_task("classification")


def batch(dtype=torch.float64):
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(N, CLASSES, dtype=dtype, generator=random)
    return logits, torch.randint(CLASSES, (N,), generator=random)


def test_the_loss_is_the_mean_cross_entropy():
    logits, targets = batch()
    expected = (logits.logsumexp(1) - logits[torch.arange(N), targets]).mean()
    torch.testing.assert_close(TASK.loss(logits, targets), expected, rtol=1e-12, atol=0)
    smoothed = TASK.smoothed_loss(logits, targets, 0.3)
    uniform = (logits.logsumexp(1) - logits.mean(1)).mean()
    torch.testing.assert_close(smoothed, 0.7 * expected + 0.3 * uniform, rtol=1e-12, atol=0)


@pytest.mark.parametrize("size", [1, 7, N])
def test_totals_of_batches_add_up_to_the_values_of_the_split(size):
    logits, targets = batch()
    parts = [TASK.totals(o, t) for o, t in zip(logits.split(size), targets.split(size), strict=True)]
    totals = {name: math.fsum(float(part[name]) for part in parts) for name in parts[0]}
    values = TASK.values(totals, N)
    wrong = int((logits.argmax(1) != targets).sum())
    assert values["error"] == wrong / N  # exactly
    assert values["loss"] == pytest.approx(TASK.loss(logits, targets).item(), rel=1e-12)
    assert values.keys() == {metric.name for metric in TASK.metrics}
    assert TASK.training_values(logits, targets)["error"].item() == pytest.approx(wrong / N)


def test_one_metric_is_primary_and_reads_in_percent():
    assert TASK.primary.name == "error"
    assert TASK.primary.on("test").name == "test_error"
    assert TASK.primary.text(0.025) == "2.50\N{NO-BREAK SPACE}%"
    assert TASK.primary.difference(0.872) == "87.20 points"
    assert [m.name for m in TASK.summary_metrics("test", TASK.primary)] == [
        "first_epoch_accuracy",
        "best_test_accuracy",
    ]


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_summary_has_the_accuracies_that_papers_print(split):
    evaluations = [{"error": 0.5, "loss": 1.0}, {"error": 0.25, "loss": 2.0}, {"error": 0.375, "loss": 0.5}]
    summary = TASK.summary(evaluations, evaluations[0], split)
    assert summary == {"first_epoch_accuracy": 0.5, f"best_{split}_accuracy": 0.75}
    assert set(TASK.summary([], None, split).values()) == {None}
    assert set(summary) == {metric.name for metric in TASK.summary_metrics(split, TASK.primary)}


def test_too_few_outputs_are_refused_before_a_kernel_would_die():
    TASK.check_outputs(torch.zeros(2, 5), 5)
    TASK.check_outputs(torch.zeros(2, 7), 5)
    with pytest.raises(InitializationError):
        TASK.check_outputs(torch.zeros(2, 4), 5)


def test_random_batches_are_standard_normal_with_uniform_classes():
    inputs, targets = TASK.random_batch(Inputs((3, 4, 4)), CLASSES, 2000, torch.Generator().manual_seed(0))
    assert inputs.dtype == torch.float32
    assert inputs.shape == (2000, 3, 4, 4)
    assert abs(inputs.mean()) < 4 / math.sqrt(inputs.numel())
    assert abs(inputs.std() - 1) < 4 / math.sqrt(2 * inputs.numel())
    counts = targets.bincount(minlength=CLASSES).double()
    assert (counts - 400).abs().max() < 4 * math.sqrt(2000 * 0.2 * 0.8)


def test_random_tokens_are_uniform_in_their_vocabulary():
    inputs, _ = TASK.random_batch(Inputs((16,), vocabulary=9), CLASSES, 500, torch.Generator().manual_seed(0))
    assert inputs.dtype == torch.int64
    assert inputs.shape == (500, 16)
    assert (inputs.flatten().bincount(minlength=9) - 8000 / 9).abs().max() < 4 * math.sqrt(8000 / 9)


def test_a_task_needs_one_primary_metric():
    from initbench.errors import InitbenchError

    for metrics in ((), (TASK.primary, TASK.primary)):
        with pytest.raises(InitbenchError, match="Odd"):
            type("Odd", (Task,), {"metrics": metrics})


def test_one_output_and_the_outputs_of_a_language_model_are_refused():
    with pytest.raises(
        InitializationError, match=r"one output, for which the cross-entropy is always 0; for regression "
    ):
        TASK.check_outputs(torch.zeros(4, 1), 1)
    with pytest.raises(
        InitializationError, match=r"50, but the model has 16 outputs, of shape \(4, 16, 50\); a language"
    ):
        TASK.check_outputs(torch.zeros(4, 16, 50), 50)
    TASK.check_outputs(torch.zeros(4, 2), 2)
