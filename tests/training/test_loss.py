"""Loss and error of a batch against timm's losses and targets, and against the definition."""

from __future__ import annotations

import pytest
import torch
from timm.data.mixup import Mixup
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy

from initbench.data.augmentation import mixup
from initbench.data.batches import TrainingBatch
from initbench.tasks import find_task
from initbench.training.run import batch_loss, batch_values

N, CLASSES = 12, 5
TASK = find_task("classification")


def logits_and_targets():
    random = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(N, CLASSES, dtype=torch.float64, generator=random)
    return logits, torch.randint(CLASSES, (N,), generator=random)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_label_smoothing_is_that_of_timm(smoothing):
    logits, targets = logits_and_targets()
    batch = TrainingBatch(torch.empty(N), targets, targets)
    expected = LabelSmoothingCrossEntropy(smoothing)(logits, targets)
    torch.testing.assert_close(batch_loss(TASK, logits, batch, smoothing), expected, rtol=1e-12, atol=0)
    soft = (1 - smoothing) * torch.eye(CLASSES, dtype=torch.float64)[targets] + smoothing / CLASSES
    torch.testing.assert_close(expected, -(soft * logits.log_softmax(1)).sum(1).mean(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [0.2, 0.7])
def test_mixup_with_label_smoothing_is_that_of_timm(weight, smoothing, monkeypatch):
    """timm mixes the images and the smoothed targets with those in reverse order."""
    logits, targets = logits_and_targets()
    images = torch.randn(N, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    theirs = Mixup(mixup_alpha=1.0, label_smoothing=smoothing, num_classes=CLASSES)
    monkeypatch.setattr(theirs, "_params_per_batch", lambda: (weight, False))
    mixed, soft = theirs(images.clone(), targets)
    partners = torch.arange(N - 1, -1, -1)
    torch.testing.assert_close(mixup(images, weight, partners), mixed, rtol=1e-12, atol=1e-12)
    batch = TrainingBatch(mixed, targets, targets[partners], weight)
    expected = SoftTargetCrossEntropy()(logits, soft)
    # timm makes its targets in float32
    torch.testing.assert_close(batch_loss(TASK, logits, batch, smoothing), expected, rtol=1e-6, atol=0)


def test_the_error_under_mixup_is_weighted_like_the_loss():
    logits, targets = logits_and_targets()
    partners, predictions = targets.roll(1), logits.argmax(1)
    errors = [(predictions != t).double().mean().item() for t in (targets, partners)]
    assert errors[0] != errors[1]
    mixed = batch_values(TASK, logits, TrainingBatch(torch.empty(N), targets, partners, 0.3))
    assert mixed["error"].item() == pytest.approx(0.3 * errors[0] + 0.7 * errors[1], rel=1e-6)
    plain = batch_values(TASK, logits, TrainingBatch(torch.empty(N), targets, targets))
    assert plain["error"].item() == pytest.approx(errors[0], rel=1e-6)
