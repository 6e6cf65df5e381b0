"""Training on text: what a model of pairs of bytes can reach is known from a count."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from language_models import bigram
from torch import nn

from initbench.data import load_dataset
from initbench.tasks import find_task
from initbench.tasks.describe import chance_levels
from initbench.training.loop import train
from initbench.training.recipe import Recipe

RECIPE = Recipe(epochs=1, batch_size=8, optimizer="adam", lr=0.02, schedule="cosine")


def bits(split, table):
    """The mean bits of a split's targets under a table of probabilities, (previous byte, byte)."""
    return -np.log2(table[split.inputs.numpy(), split.targets.numpy()]).mean()


def counts(split):
    pairs = (split.inputs * 256 + split.targets).flatten().bincount(minlength=256**2)
    return pairs.reshape(256, 256).double().numpy()


@pytest.fixture(scope="module")
def library():
    return load_dataset("python_library", {"context": 128, "train_size": 3000})


@pytest.mark.slow
def test_a_model_of_pairs_comes_near_the_table_of_pairs(library):
    torch.manual_seed(0)
    model = nn.Embedding(256, 256)  # from a byte to the logits of the next
    nn.init.zeros_(model.weight)
    result = train(model, library, RECIPE.model_copy(update={"lr": 0.2}), 0)
    found = result.metrics["test_bits_per_byte"]
    smoothed = counts(library.train) + 0.5
    table = bits(library.test, smoothed / smoothed.sum(1, keepdims=True))
    own = counts(library.test)
    best = bits(library.test, own / np.maximum(own.sum(1, keepdims=True), 1))  # fitted on the very test split
    chance, error = chance_levels(find_task("language_modelling"), library.test.targets, 256)["bits_per_byte"]
    assert best < found < chance - 50 * error
    assert found == pytest.approx(table, abs=0.02)  # .004 as measured; the chance level is 1 above
    # The other metrics are the same cross-entropy, of bytes as tokens.
    assert result.metrics["test_loss"] == pytest.approx(found * math.log(2), rel=1e-12)
    assert result.metrics["test_perplexity"] == pytest.approx(2**found, rel=1e-12)


@pytest.mark.slow
def test_the_training_curve_is_in_bits_too_and_tokens_are_counted(library):
    torch.manual_seed(0)
    model = bigram(8, inputs=library.inputs, outputs=library.outputs)
    result = train(model, library, RECIPE, 0)
    last = result.history[-1]
    assert last["train_bits_per_byte"] == pytest.approx(last["train_loss"] / math.log(2), rel=1e-5)  # float32
    assert last["test_bits_per_byte"] == result.metrics["best_test_bits_per_byte"]
    assert result.metrics["validation_bits_per_byte"] > 0
    assert result.speed["tokens_per_second"] == pytest.approx(128 * result.speed["samples_per_second"])


@pytest.mark.slow
def test_smoothed_labels_raise_the_loss_that_is_minimized_and_not_the_bits(library):
    torch.manual_seed(0)
    model = bigram(8, inputs=library.inputs, outputs=library.outputs)
    last = train(model, library, RECIPE.model_copy(update={"label_smoothing": 0.2}), 0).history[-1]
    assert last["train_loss"] / math.log(2) > last["train_bits_per_byte"] + 0.3
    assert last["train_bits_per_byte"] == pytest.approx(last["test_bits_per_byte"], abs=0.7)


@pytest.mark.slow
def test_the_loss_is_computed_once_a_step(library, monkeypatch):
    calls = []
    task = type(find_task("language_modelling"))
    loss = task.loss
    monkeypatch.setattr(task, "loss", lambda *given: calls.append(given) or loss(*given))
    model = bigram(8, inputs=library.inputs, outputs=library.outputs)
    recipe = Recipe(steps=4, batch_size=8, lr=0.02)
    result = train(model, library, recipe, 0)
    assert len(calls) == 4
    torch.manual_seed(0)
    parts = [bigram(8, inputs=library.inputs, outputs=library.outputs) for _ in range(2)]
    parts[1].load_state_dict(parts[0].state_dict())
    whole, split = (
        train(part, library, recipe.model_copy(update={"accumulate": n}), 0).history[-1]
        for part, n in zip(parts, (1, 2), strict=True)
    )
    assert split["train_bits_per_byte"] == pytest.approx(whole["train_bits_per_byte"], rel=1e-5)  # float32
    assert result.history[-1]["train_loss"] == pytest.approx(result.history[-1]["train_bits_per_byte"] * math.log(2))
