"""The loop asks the task: a regression and a task over tokens, of which nothing in the library knows."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from initbench import registry
from initbench.data.dataset import Dataset, Split, Splits
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.metric import Metric
from initbench.tasks import Task
from initbench.tasks.describe import describe_task
from initbench.training.loop import train
from initbench.training.recipe import Recipe

pytestmark = pytest.mark.usefixtures("one_thread", "scratch_registry")


class Regression(Task):
    """A number per sample, judged by R²."""

    metrics = (
        Metric("r_squared", "higher", best=1.0, primary=True),
        Metric("mean_squared_error", "lower", best=0.0),
    )
    recipe_fields = frozenset({"mixup"})

    def loss(self, outputs, targets):
        return functional.mse_loss(outputs.squeeze(1), targets)

    def training_values(self, outputs, targets):
        return {"absolute_error": (outputs.squeeze(1) - targets).abs().mean(), "bias": (outputs[:, 0] - targets).mean()}

    def totals(self, outputs, targets):
        wide = targets.double()
        squares = (outputs.squeeze(1).double() - wide).square()
        return {"squared_error": squares.sum(), "sum": wide.sum(), "sum_of_squares": wide.square().sum()}

    def values(self, totals, samples):
        spread = totals["sum_of_squares"] - totals["sum"] ** 2 / samples
        return {
            "r_squared": 1 - totals["squared_error"] / spread if spread > 0 else math.nan,
            "mean_squared_error": totals["squared_error"] / samples,
        }

    def constant_predictor(self, targets, outputs):
        return targets.double().mean().expand(outputs)

    def random_targets(self, outputs, samples, generator):
        del outputs
        return torch.randn(samples, generator=generator)


def dataset(validation_size=20, train_size=48):
    random = torch.Generator().manual_seed(0)
    weights = torch.randn(8, generator=random)

    def split(n):
        inputs = torch.randn(n, 8, generator=random)
        return Split(inputs, inputs @ weights)

    splits = Splits(split(train_size), split(validation_size), split(30))
    return Dataset("planes", "regression", Inputs((8,)), 1, splits)


@pytest.fixture
def task(scratch_registry):
    del scratch_registry
    registry.register_task("regression")(Regression)
    return Regression()


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def r_squared(network, split):
    network.eval()
    with torch.no_grad():
        predicted = network(split.inputs).squeeze(1).double()
    wide = split.targets.double()
    return 1 - ((predicted - wide).square().sum() / (wide - wide.mean()).square().sum()).item()


def test_a_regression_is_trained_and_judged_by_its_own_metrics(task):
    data, network = dataset(), model()
    result = train(network, data, Recipe(epochs=30, batch_size=16, lr=0.05, mixup=0.2), 0)
    metrics = result.metrics
    assert metrics["test_r_squared"] == pytest.approx(r_squared(network, data.test), abs=1e-12)
    assert metrics["test_r_squared"] > 0.8
    assert metrics["validation_r_squared"] == pytest.approx(r_squared(network, data.validation), abs=1e-12)
    assert metrics["first_epoch_r_squared"] == result.history[0]["test_r_squared"]
    assert metrics["best_test_r_squared"] == max(entry["test_r_squared"] for entry in result.history)
    assert set(result.history[0]) == {
        *("step", "epoch", "lr", "train_loss", "train_absolute_error", "train_bias"),
        *("test_r_squared", "test_mean_squared_error"),
    }
    assert {"train_loss", "train_absolute_error", "train_bias"} <= metrics.keys()
    assert not {"test_error", "train_error", "test_loss", "first_epoch_accuracy"} & metrics.keys()
    described = describe_task(task, data, "test", metrics)
    assert described["primary"] == "test_r_squared"
    # The best constant is the mean of the test targets, whose R² is 0: 1 - s/s up to the rounding of two ways to sum s.
    assert described["metrics"]["test_r_squared"]["chance"] == pytest.approx(0, abs=1e-12)
    assert described["metrics"]["train_loss"]["better"] == "lower"
    json.dumps([metrics, result.history, described], allow_nan=False)


@pytest.mark.usefixtures("task")
def test_training_values_are_means_over_the_epoch_mixed_like_the_loss():
    from initbench.data.augmentation import Augmentation
    from initbench.data.batches import TrainingBatches

    data, network = dataset(train_size=21), model()
    # At learning rate 0 every batch meets the same model.
    recipe = Recipe(epochs=1, batch_size=8, lr=0.0, mixup=1.0)
    [entry] = train(network, data, recipe, 5).history
    bias = loss = 0.0
    for batch in TrainingBatches(data.train, 8, Augmentation(mixup=1.0), 5).epoch():
        outputs = network(batch.inputs).squeeze(1)
        for targets, weight in ((batch.targets, batch.weight), (batch.partners, 1 - batch.weight)):
            bias += weight * (outputs - targets).sum().item()
            loss += weight * (outputs - targets).square().sum().item()
    assert entry["train_bias"] == pytest.approx(bias / 21, rel=1e-4, abs=1e-6)
    assert entry["train_loss"] == pytest.approx(loss / 21, rel=1e-5)


@pytest.mark.usefixtures("task")
def test_a_search_names_everything_by_its_split():
    result = train(model(), dataset(), Recipe(epochs=1, batch_size=16), 0, evaluate_on="validation")
    assert "validation_r_squared" in result.metrics
    assert "best_validation_r_squared" in result.metrics
    assert not [name for name in [*result.metrics, *result.history[0]] if "test" in name]


@pytest.mark.usefixtures("task")
def test_what_a_task_has_no_words_for_is_refused():
    with pytest.raises(InitbenchError, match=r"^label_smoothing "):
        train(model(), dataset(), Recipe(epochs=1, label_smoothing=0.1), 0)


@pytest.mark.usefixtures("task")
def test_a_metric_that_is_undefined_is_no_divergence():
    """R² of targets that are all the same."""
    data = dataset()
    data.test.targets.fill_(1.0)
    result = train(model(), data, Recipe(epochs=1, batch_size=16, lr=0.01), 0)
    assert not result.diverged
    assert result.metrics["test_r_squared"] is None
    assert result.metrics["test_r_squared_reason"] == "nan"
    assert result.history[0]["test_r_squared"] is None
    assert result.metrics["best_test_r_squared"] is None
    assert result.metrics["test_mean_squared_error"] > 0
    json.dumps([result.metrics, result.history], allow_nan=False)


@pytest.mark.usefixtures("task")
def test_a_diverging_regression_has_a_reason_for_each_of_its_metrics():
    result = train(model(), dataset(), Recipe(epochs=3, batch_size=16, lr=1e30), 0)
    assert result.diverged
    step = result.metrics["diverged_at_step"]
    for name in ("test_r_squared", "test_mean_squared_error", "train_loss", "train_bias", "validation_r_squared"):
        assert result.metrics[name] is None
        assert result.metrics[f"{name}_reason"] == f"diverged at step {step}"


class NextToken(Regression):
    """The next token at each position; a model with `logits`."""

    metrics = (Metric("loss", "lower", primary=True),)
    recipe_fields = frozenset()

    def loss(self, outputs, targets):
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def training_values(self, outputs, targets):
        del outputs, targets
        return {}

    def totals(self, outputs, targets):
        nats = functional.cross_entropy(outputs.flatten(0, 1).double(), targets.flatten(), reduction="sum")
        return {"nats": nats, "tokens": torch.tensor(targets.numel())}

    def values(self, totals, samples):
        del samples
        return {"loss": totals["nats"] / totals["tokens"]}

    def output_shape(self, inputs, outputs):
        return (*inputs.shape, outputs)


class Bigrams(nn.Module):
    """As models of Hugging Face's put out."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 7)

    def forward(self, tokens):
        return type("Output", (), {"logits": self.table(tokens)})()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_tokens_are_learned_by_a_model_with_logits(precision):
    registry.register_task("next_token")(NextToken)
    random = torch.Generator().manual_seed(0)

    def split(n):
        start = torch.randint(7, (n, 1), generator=random)
        text = (start + 3 * torch.arange(13)) % 7
        return Split(text[:, :-1], text[:, 1:])

    data = Dataset("steps", "next_token", Inputs((12,), vocabulary=7), 7, Splits(split(32), split(8), split(8)))
    recipe = Recipe(
        steps=60, batch_size=8, optimizer="adamw", lr=0.1, schedule="linear", warmup_steps=5, precision=precision
    )
    result = train(Bigrams(), data, recipe, 0)
    assert result.metrics["test_loss"] < 0.1 < math.log(7)
    assert result.metrics["steps"] == 60
    assert result.speed["tokens_per_second"] == pytest.approx(12 * result.speed["samples_per_second"])
    assert {name for name in result.metrics if name.startswith("train_")} == {"train_loss"}
