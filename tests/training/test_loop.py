"""The training loop: what it records, what it depends on, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from cases import evaluate, random_dataset
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.data import load_dataset
from initbench.data.augmentation import Augmentation
from initbench.data.batches import TrainingBatches
from initbench.errors import DataError
from initbench.initializers.initialize import initialize
from initbench.tasks import find_task
from initbench.training import run
from initbench.training.loop import train
from initbench.training.recipe import Recipe
from initbench.training.run import batch_loss

SHAPE, CLASSES = (2, 6, 6), 4


pytestmark = pytest.mark.usefixtures("one_thread")


def dataset(train_size=40, validation_size=12, test_size=16):
    return random_dataset(SHAPE, CLASSES, (train_size, validation_size, test_size))


def model(name="wrn", seed=0, **arguments):
    if name == "wrn":
        arguments = {"depth": 10, "width": 1, "dropout": 0.3, **arguments}
    return create_model(name, input_shape=SHAPE, num_classes=CLASSES, seed=seed, **arguments)


def evaluated(network, split):
    return evaluate(network, split, find_task("classification"), 1024)


EVERYTHING = Recipe(
    epochs=3,
    batch_size=16,
    lr=0.05,
    warmup_epochs=0.5,
    crop=1,
    flip=True,
    cutout=2,
    mixup=1.0,
    label_smoothing=0.1,
    clip_norm=1.0,
    history_every=2,
)


def test_the_same_seed_twice_is_bitwise_the_same_whatever_the_global_state():
    results, states = [], []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        network = model()
        results.append(train(network, dataset(), EVERYTHING, 7))
        states.append(network.state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    assert results[0] == results[1]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    other = train(model(), dataset(), EVERYTHING, 8)
    assert other.metrics["train_loss"] != results[0].metrics["train_loss"]


def test_the_seed_of_training_decides_the_dropout_masks():
    recipe = Recipe(epochs=1, batch_size=40, lr=0.0)  # one batch: the order changes nothing but rounding
    losses = [train(model(norm="none"), dataset(), recipe, seed).metrics["train_loss"] for seed in (0, 1)]
    assert abs(losses[0] - losses[1]) > 1e-4


def test_two_initializers_see_the_same_batches(monkeypatch):
    """A distribution and a tuner, which draws batches of its own: images, targets, partners and λ are bitwise equal."""
    seen, metainit = [], {"base": "orthogonal", "steps": 2, "batch_size": 4}
    monkeypatch.setattr(
        run, "batch_loss", lambda task, out, batch, *a: seen[-1].append(batch) or batch_loss(task, out, batch, *a)
    )
    for name, arguments in (("xavier", {}), ("metainit", metainit)):
        network = model(norm="none", depth=10)
        batch_size = arguments.pop("batch_size", 16)
        initialize(network, name, input_shape=(batch_size, *SHAPE), num_classes=CLASSES, seed=7, **arguments)
        seen.append([])
        train(network, dataset(), EVERYTHING, 7)
    assert len(seen[0]) == 9
    for ours, theirs in zip(*seen, strict=True):
        assert ours.weight == theirs.weight < 1
        for field in ("inputs", "targets", "partners"):
            assert torch.equal(getattr(ours, field), getattr(theirs, field))


def test_validation_and_test_samples_change_nothing_in_the_weights():
    states = []
    for scale in (1.0, 50.0):
        data, network = dataset(), model()
        for split in (data.validation, data.test):
            split.inputs.mul_(scale)
        train(network, data, EVERYTHING, 7)
        states.append(network.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


class _Closed:
    """A split that must not be opened."""

    def __getattr__(self, name):
        pytest.fail(f"the test split was opened: {name}")


def test_a_search_evaluates_on_validation_and_never_opens_the_test_split():
    data = dataset()
    closed = replace(data, splits=replace(data.splits, test=_Closed()))
    network = model()
    result = train(network, closed, EVERYTHING, 7, evaluate_on="validation")
    expected = evaluated(network, data.validation)
    assert {"loss": result.metrics["validation_loss"], "error": result.metrics["validation_error"]} == expected
    assert not [key for key in [*result.metrics, *result.history[-1]] if "test" in key]


def test_an_empty_validation_split():
    data = dataset(validation_size=0)
    assert "validation_error" not in train(model(), data, EVERYTHING, 0).metrics
    with pytest.raises(DataError, match="validation"):
        train(model(), data, EVERYTHING, 0, evaluate_on="validation")


def test_metrics_are_those_of_the_trained_model():
    network, data, seen = model(), dataset(), []
    result = train(network, data, EVERYTHING, 7, on_epoch=lambda *arguments: seen.append(arguments))
    metrics = result.metrics
    assert {"loss": metrics["test_loss"], "error": metrics["test_error"]} == evaluated(network, data.test)
    assert metrics["validation_error"] == evaluated(network, data.validation)["error"]
    assert metrics["parameters"] == sum(p.numel() for p in network.parameters())
    assert metrics["steps"] == 9
    assert metrics["diverged_at_step"] is None
    assert not result.diverged
    epochs = [entry for entry in result.history if entry["epoch"] in (1, 2, 3)]
    assert metrics["first_epoch_accuracy"] == 1 - epochs[0]["test_error"]
    assert metrics["best_test_accuracy"] == 1 - min(entry["test_error"] for entry in result.history)
    assert (metrics["train_loss"], metrics["train_error"]) == (epochs[-1]["train_loss"], epochs[-1]["train_error"])
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert not [key for key in metrics if key.endswith("_reason")]
    assert network.training


def test_history_has_an_entry_per_epoch_and_per_so_many_steps():
    every = train(model(), dataset(), EVERYTHING, 7).history
    assert [entry["step"] for entry in every] == [2, 3, 4, 6, 8, 9]
    assert [entry["epoch"] for entry in every] == pytest.approx([2 / 3, 1, 4 / 3, 2, 8 / 3, 3])
    epochs = train(model(), dataset(), EVERYTHING.model_copy(update={"history_every": None}), 7).history
    assert epochs == [entry for entry in every if entry["step"] % 3 == 0]  # evaluating more often changes nothing


@pytest.mark.parametrize(("mixup", "smoothing"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.2)])
def test_training_loss_and_error_are_means_over_the_epoch_weighted_by_lambda(mixup, smoothing):
    # At learning rate 0 every batch meets the same model, so the means can be had from the batches alone.
    network, data = model("mlp"), dataset(train_size=37)
    recipe = Recipe(epochs=2, batch_size=10, lr=0.0, mixup=mixup, flip=True, label_smoothing=smoothing)
    history = train(network, data, recipe, 5).history
    batches = TrainingBatches(data.train, 10, Augmentation(flip=True, mixup=mixup), 5)
    for entry in history:
        loss = error = 0.0
        for batch in batches.epoch():
            logits = network(batch.inputs)
            for targets, weight in ((batch.targets, batch.weight), (batch.partners, 1 - batch.weight)):
                log_probabilities = logits.log_softmax(1)
                soft = (1 - smoothing) * torch.eye(CLASSES)[targets] + smoothing / CLASSES
                loss -= weight * (soft * log_probabilities).sum().item()
                error += weight * (logits.argmax(1) != targets).sum().item()
        assert entry["train_loss"] == pytest.approx(loss / 37, rel=1e-5)  # float32
        assert entry["train_error"] == pytest.approx(error / 37, rel=1e-5)
        # Evaluation has no smoothed targets.
        logits = network(data.test.inputs)
        assert entry["test_loss"] == pytest.approx(functional.cross_entropy(logits, data.test.targets).item(), rel=1e-5)


def test_mixup_gradients_are_those_of_the_mixed_loss():
    network, data = model("mlp"), dataset(train_size=8)
    start = [p.detach().clone() for p in network.parameters()]
    recipe = Recipe(epochs=1, batch_size=8, lr=1.0, momentum=0.0, mixup=1.0, schedule="constant")
    batch = next(TrainingBatches(data.train, 8, Augmentation(mixup=1.0), 5).epoch())
    soft = batch.weight * torch.eye(CLASSES)[batch.targets] + (1 - batch.weight) * torch.eye(CLASSES)[batch.partners]
    loss = -(soft * network(batch.inputs).log_softmax(1)).sum(1).mean()  # cross-entropy with soft targets
    gradient = torch.autograd.grad(loss, list(network.parameters()))
    train(network, data, recipe, 5)
    for before, after, g in zip(start, network.parameters(), gradient, strict=True):
        torch.testing.assert_close(after.detach(), before - g, rtol=1e-5, atol=1e-6)


def test_channels_last_trains_the_same_model():
    results = []
    for channels_last in (False, True):
        network, layouts = model(dropout=0.0), set()
        network.register_forward_pre_hook(
            lambda _, x, layouts=layouts: layouts.add(x[0].is_contiguous(memory_format=torch.channels_last))
        )
        recipe = Recipe(epochs=2, batch_size=16, lr=0.05, crop=1, channels_last=channels_last)
        results.append(train(network, dataset(), recipe, 0).metrics["train_loss"])
        assert layouts == {channels_last}
    assert results[0] == pytest.approx(results[1], rel=1e-4)  # float32 rounding over six steps


def poison(network, step):
    """Make the gradient of the last layer NaN in the given step, so that the next step's loss is the first to be."""
    calls = iter(range(1000))
    network.classifier.weight.register_hook(lambda g: g * float("nan") if next(calls) == step else g)


def run_poisoned(step, monkeypatch, check_every=50, history_every=None):
    monkeypatch.setattr(run, "CHECK_EVERY", check_every)
    network = model("mlp")
    poison(network, step)
    recipe = Recipe(epochs=5, batch_size=4, lr=0.01, history_every=history_every)  # 10 steps per epoch
    return train(network, dataset(), recipe, 0)


@pytest.mark.parametrize("step", [0, 5, 9, 23, 48])
def test_the_first_step_whose_loss_is_not_finite_ends_the_training(step, monkeypatch):
    results = [run_poisoned(step, monkeypatch, check_every) for check_every in (1, 3, 50)]
    assert results[0] == results[1] == results[2]
    result = results[0]
    assert result.diverged
    assert result.metrics["diverged_at_step"] == result.metrics["steps"] == step + 1
    for key in ("test_error", "test_loss", "train_error", "train_loss", "validation_error"):
        assert result.metrics[key] is None
        assert result.metrics[f"{key}_reason"] == f"diverged at step {step + 1}"
    json.dumps([result.metrics, result.history], allow_nan=False)
    epochs = step // 10 if step % 10 != 9 else (step - 9) // 10  # with a poisoned last step, evaluation shows it
    assert [entry["step"] for entry in result.history] == [10 * (i + 1) for i in range(epochs)]
    stepwise = run_poisoned(step, monkeypatch, history_every=4)
    assert stepwise.metrics["diverged_at_step"] == step + 1


def test_the_accuracy_after_the_first_epoch_outlives_a_later_divergence(monkeypatch):
    late = run_poisoned(23, monkeypatch)
    assert late.metrics["first_epoch_accuracy"] == 1 - late.history[0]["test_error"]
    early = run_poisoned(5, monkeypatch)
    assert early.metrics["first_epoch_accuracy"] is None
    assert early.metrics["first_epoch_accuracy_reason"] == "diverged at step 6"
    assert early.metrics["best_test_accuracy"] is None


def test_a_loss_that_is_first_not_finite_in_the_last_evaluation_counts(monkeypatch):
    result = run_poisoned(49, monkeypatch)
    assert result.diverged
    assert result.metrics["diverged_at_step"] == 50
    assert len(result.history) == 4


def test_a_huge_learning_rate_diverges_and_clipping_prevents_it():
    def run(clip_norm):
        recipe = Recipe(epochs=2, batch_size=8, lr=1e18, momentum=0.0, clip_norm=clip_norm)
        return train(model("mlp", depth=8, activation="linear"), dataset(), recipe, 0)

    assert run(None).diverged
    assert not run(1e-20).diverged


def test_a_perceptron_learns_the_digits():
    digits = load_dataset("digits", {})
    network = create_model("mlp", input_shape=(1, 8, 8), seed=0)
    result = train(network, digits, Recipe(epochs=8, batch_size=64, lr=0.1), 0)
    assert result.metrics["test_error"] < 0.05  # logistic regression has about 0.04, guessing 0.9
    assert result.metrics["validation_error"] < 0.07
    assert result.metrics["train_loss"] < 0.1
