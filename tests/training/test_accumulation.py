"""Gradient accumulation: the step of the whole batch, in less memory."""

from __future__ import annotations

import pytest
import torch
from cases import random_dataset
from torch import nn

from initbench.architectures.create import create_model
from initbench.data.batches import TrainingBatch
from initbench.training.loop import train
from initbench.training.recipe import Recipe

SHAPE, CLASSES = (2, 6, 6), 4

pytestmark = pytest.mark.usefixtures("one_thread")


def trained(accumulate, *, dtype=torch.float32, train_size=37, name="plain", **recipe):
    data = random_dataset(SHAPE, CLASSES, (train_size, 8, 8))
    for split in (data.train, data.validation, data.test):
        split.inputs.data = split.inputs.to(dtype)
    depth = {"mlp": {}, "plain": {"depth": 10, "width": 1, "norm": "none"}, "wrn": {"depth": 10, "width": 1}}[name]
    model = create_model(name, input_shape=SHAPE, num_classes=CLASSES, seed=0, **depth).to(dtype)
    sizes = []
    model.register_forward_pre_hook(lambda module, x: sizes.append(len(x[0])) if module.training else None)
    recipe = Recipe(**{"epochs": 2, "batch_size": 16, "lr": 0.05, "accumulate": accumulate} | recipe)
    result = train(model, data, recipe, 7)
    return result, dict(model.named_parameters()), sizes


FEATURES = [{}, {"mixup": 1.0, "label_smoothing": 0.1, "clip_norm": 0.5, "crop": 1}, {"optimizer": "adamw", "lr": 0.01}]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("accumulate", [2, 3, 16])
def test_it_trains_as_the_whole_batch_does(accumulate, features, dtype, tolerance):
    whole, expected, _ = trained(1, dtype=dtype, **features)
    parts, found, _ = trained(accumulate, dtype=dtype, **features)
    # Adam divides by √v + ε, so that a gradient of nearly 0 is magnified; one that is rounding alone is a whole step of
    # the rate, whose sign differs between processors: one element in 10,000 may be off by the two steps of two signs.
    adam = features.get("optimizer") == "adamw"
    magnified, rounded = (100, 1e-4) if adam else (1, 0.0)
    for name, parameter in expected.items():
        off = (found[name] - parameter).abs()
        assert (~(off <= magnified * tolerance)).sum() <= rounded * off.numel() * (dtype == torch.float32), name
        assert not adam or off.max() <= 2 * features["lr"], name
    for ours, theirs in zip(parts.history, whole.history, strict=True):
        for value in ("train_loss", "test_loss"):
            assert ours[value] == pytest.approx(theirs[value], abs=10 * magnified * tolerance)
        assert ours["train_error"] == pytest.approx(theirs["train_error"], abs=1e-6)  # a mean in float32


def test_a_step_of_one_micro_batch_is_bitwise_the_same():
    """As where a batch is smaller than those that are split."""
    whole, expected, _ = trained(1, train_size=8)
    parts, found, sizes = trained(2, train_size=8)
    assert sizes == [8, 8]
    assert parts == whole
    assert all(torch.equal(found[name], parameter) for name, parameter in expected.items())


@pytest.mark.parametrize(
    ("accumulate", "samples", "sizes"),
    [
        (2, 32, [8, 8, 8, 8]),
        (3, 16, [6, 5, 5]),
        (4, 21, [4, 4, 4, 4, 3, 2]),
        (4, 17, [5, 4, 4, 4]),  # the single sample that is left over has joined the batch
        (8, 19, [2] * 8 + [3]),  # of one sample there is no variance
        (16, 18, [1] * 18),
    ],
)
def test_micro_batches_are_of_one_size_and_of_a_smaller_batch_fewer(accumulate, samples, sizes):
    assert trained(accumulate, train_size=samples, epochs=1, name="mlp")[2] == sizes


def test_batch_norm_takes_its_statistics_over_micro_batches_where_that_is_said():
    recipe = {"name": "wrn", "accumulate": 2, "batch_norm": "micro_batch"}
    result, _, sizes = trained(**recipe)
    assert not result.diverged
    assert max(sizes) == 8
    assert min(sizes) > 1
    assert trained(1, name="wrn")[0].history != result.history


def test_a_batch_keeps_its_partners_and_its_weight_in_parts():
    batch = TrainingBatch(torch.randn(7, 2), torch.arange(7), torch.arange(7).flip(0), 0.3)
    parts = batch.split(3)
    assert [len(part) for part in parts] == [3, 2, 2]
    assert {part.weight for part in parts} == {0.3}
    for field in ("inputs", "targets", "partners"):
        assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(batch, field))


def test_the_mean_is_over_samples_and_not_over_micro_batches():
    """One step on micro-batches of 2 and 1 samples, by hand."""
    data = random_dataset(SHAPE, CLASSES, (3, 4, 4))
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, CLASSES))
    weight = model[1].weight.detach().clone()
    gradient = torch.autograd.grad(
        nn.functional.cross_entropy(model(data.train.inputs), data.train.targets), model[1].weight
    )[0]
    recipe = Recipe(epochs=1, batch_size=3, accumulate=2, lr=1.0, momentum=0.0)
    train(model, data, recipe, 0)
    torch.testing.assert_close(model[1].weight.detach(), weight - gradient, rtol=1e-5, atol=1e-6)
