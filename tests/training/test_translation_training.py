"""Training on pairs of sentences: batches of tokens, accumulation by tokens, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from cases import random_dataset
from sentence_models import BagTranslator

from initbench.data import load_dataset
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import PAD
from initbench.tasks import find_task
from initbench.training.loop import train
from initbench.training.recipe import Recipe
from initbench.training.refusals import data_refusal

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data():
    return load_dataset("number_words", {"train_size": 61, "validation_size": 0, "test_size": 23})


def model(data, dtype=torch.float64):
    torch.manual_seed(0)
    return BagTranslator(data.inputs.vocabulary, data.outputs).to(dtype)


def trained(data, dtype=torch.float64, **recipe):
    network = model(data, dtype)
    result = train(network, data, Recipe(**{"epochs": 2, "lr": 0.1, "batch_tokens": 100} | recipe), 7)
    return result, dict(network.named_parameters())


def summed(network, inputs, targets):
    """The sum of the nats of all tokens, and their number, sentence by sentence without padding."""
    nats = tokens = 0.0
    with torch.no_grad():
        for pair, padded in zip(inputs, targets, strict=True):
            source, read, target = (tokens[tokens != PAD] for tokens in (*pair, padded))
            length = max(len(source), len(read))
            both = [torch.nn.functional.pad(side, (0, length - len(side))) for side in (source, read)]
            outputs = network(torch.stack(both)[None])[0, : len(target)].log_softmax(1)
            nats -= outputs[torch.arange(len(target)), target].sum().item()
            tokens += len(target)
    return nats, tokens


@pytest.mark.parametrize("batches", [{"batch_tokens": 100}, {"batch_tokens": None, "batch_size": 9}])
def test_the_history_is_a_mean_over_the_tokens_of_the_epoch(data, batches):
    """At learning rate 0 every batch meets the same model."""
    result, _ = trained(data, epochs=1, lr=0.0, **batches)
    nats, tokens = summed(model(data), *data.train.take(slice(0, 61)))
    assert result.history[-1]["train_loss"] == pytest.approx(nats / tokens, rel=1e-12)
    nats, tokens = summed(model(data), *data.test.take(slice(0, 23)))
    assert result.metrics["test_loss"] == pytest.approx(nats / tokens, rel=1e-12)


def test_one_step_follows_the_gradient_of_the_mean_over_tokens(data):
    network = model(data)
    batch = next(iter(TrainingBatches(data.train, 128, Augmentation(), 7, batch_tokens=100).epoch()))
    outputs = network(batch.inputs).log_softmax(2)
    known = batch.targets != PAD
    loss = -outputs.gather(2, batch.targets[..., None])[..., 0][known].sum() / known.sum()
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    for accumulate in (1, 4):
        _, found = trained(data, epochs=10, steps=1, momentum=0.0, schedule="constant", accumulate=accumulate)
        for (name, before), gradient in zip(network.named_parameters(), gradients, strict=True):
            torch.testing.assert_close(found[name], before - 0.1 * gradient, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("accumulate", "dtype", "tolerance"),
    [(2, torch.float64, 1e-12), (50, torch.float64, 1e-12), (3, torch.float32, 1e-5)],
)
@pytest.mark.parametrize(
    "recipe",
    [{}, {"label_smoothing": 0.1, "clip_norm": 0.5}, {"batch_tokens": None, "batch_size": 50}],
    ids=["plain", "smoothed", "batch_size"],
)
def test_micro_batches_add_up_to_the_batch_by_their_tokens(data, recipe, accumulate, dtype, tolerance):
    whole, expected = trained(data, dtype, **recipe)
    parts, found = trained(data, dtype, accumulate=accumulate, **recipe)
    for name, parameter in expected.items():
        torch.testing.assert_close(found[name], parameter, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(parts.history, whole.history, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=tolerance)
        assert ours["test_loss"] == pytest.approx(theirs["test_loss"], rel=tolerance)


def test_steps_are_known_before(data):
    batches = len(TrainingBatches(data.train, 128, Augmentation(), 7, batch_tokens=100))
    assert batches > 61 * 5 / 100
    result, _ = trained(data)
    assert result.metrics["steps"] == 2 * batches
    assert [entry["step"] for entry in result.history] == [batches, 2 * batches]
    assert "tokens_per_second" not in result.speed
    for seed in range(3):
        assert len(TrainingBatches(data.train, 128, Augmentation(), seed, batch_tokens=100)) == batches


class TestRefusals:
    def test_too_long_a_sentence(self, data):
        longest = int(data.train.lengths.max())
        trained(data, batch_tokens=longest, epochs=1)
        with pytest.raises(ArgumentError, match=f"at least {longest}.*got {longest - 1}") as refusal:
            trained(data, batch_tokens=longest - 1, epochs=1)
        assert refusal.value.argument == "batch_tokens"

    def test_samples_without_lengths(self):
        sizes = {"train_size": 4, "validation_size": 0, "test_size": 4}
        arguments = {"task": "translation", "shape": [2, 5], "vocabulary": 9, "outputs": 9} | sizes
        pairs = load_dataset("random", arguments)
        assert math.isfinite(train(BagTranslator(9, 9), pairs, Recipe(epochs=1), 0).metrics["test_loss"])
        with pytest.raises(ArgumentError, match="no lengths"):
            train(BagTranslator(9, 9), pairs, Recipe(epochs=1, batch_tokens=50), 0)

    def test_another_task(self):
        images = random_dataset((1, 4, 4), 3, (8, 0, 4))
        linear = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        with pytest.raises(InitbenchError, match=r"^batch_tokens is not for task classification$"):
            train(linear, images, Recipe(epochs=1, batch_tokens=50), 0)

    def test_mixup(self, data):
        assert data_refusal(Recipe(mixup=1.0), find_task("translation"), data.inputs).startswith("mixup ")
        assert data_refusal(Recipe(label_smoothing=0.1), find_task("translation"), data.inputs) is None
