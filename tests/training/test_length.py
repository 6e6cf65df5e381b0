"""How long a training is, and when it is evaluated."""

from __future__ import annotations

import pytest
import torch
from cases import random_dataset

from initbench.architectures.create import create_model
from initbench.execution.trial import run_trial
from initbench.inputs import Inputs
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.loop import train
from initbench.training.recipe import Recipe

SHAPE, CLASSES = (2, 6, 6), 4
PER_EPOCH = 5  # 40 samples in batches of 8

pytestmark = pytest.mark.usefixtures("one_thread")


def trained(seen=None, validation_size=8, on="test", **recipe):
    data = random_dataset(SHAPE, CLASSES, (40, validation_size, 16))
    model = create_model("mlp", input_shape=SHAPE, num_classes=CLASSES, seed=0, width=8)
    if seen is not None:
        model.register_forward_hook(lambda module, _, out: seen.append((module.training, len(out))))
    recipe = Recipe(**{"batch_size": 8, "lr": 0.05} | recipe)
    epochs = []
    result = train(model, data, recipe, 7, on_epoch=lambda *done: epochs.append(done), evaluate_on=on)
    return result, model.state_dict(), epochs


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_so_many_steps_are_so_many_epochs(schedule):
    by_epochs, by_steps = (trained(schedule=schedule, **length) for length in ({"epochs": 3}, {"steps": 15}))
    assert by_epochs[0] == by_steps[0]
    assert by_epochs[2] == by_steps[2]
    assert all(torch.equal(by_epochs[1][key], by_steps[1][key]) for key in by_epochs[1])


def test_the_last_epoch_may_end_early():
    result, _, epochs = trained(steps=12, schedule="linear")
    assert [entry["step"] for entry in result.history] == [5, 10, 12]
    assert [entry["epoch"] for entry in result.history] == [1, 2, 2.4]
    assert [entry["lr"] for entry in result.history] == pytest.approx([0.05 * 8 / 12, 0.05 * 3 / 12, 0.05 / 12])
    assert epochs == [(1, 3), (2, 3), (3, 3)]
    assert result.metrics["steps"] == 12
    assert result.metrics["test_error"] == result.history[-1]["test_error"]
    assert result.metrics["train_loss"] == result.history[-1]["train_loss"]


def test_the_first_steps_are_the_same_however_many_follow():
    short, long = (trained(steps=steps, schedule="constant", history_every=1)[0].history for steps in (7, 13))
    assert short[:7] == long[:7]


def test_less_than_an_epoch_has_no_accuracy_after_the_first_one():
    metrics = trained(steps=3)[0].metrics
    assert metrics["first_epoch_accuracy"] is None
    assert metrics["first_epoch_accuracy_reason"] == "not evaluated"
    assert metrics["best_test_accuracy"] == 1 - metrics["test_error"]


@pytest.mark.parametrize(
    ("recipe", "entries", "evaluated"),
    [
        ({}, [5, 10, 15], [5, 10, 15]),
        ({"history_every": 4}, [4, 5, 8, 10, 12, 15], [4, 5, 8, 10, 12, 15]),
        ({"evaluate_every": 6}, [5, 6, 10, 12, 15], [6, 12, 15]),
        ({"evaluate_every": 100}, [5, 10, 15], [15]),
        ({"evaluate_every": 10, "history_every": 5}, [5, 10, 15], [10, 15]),
        ({"evaluate_every": 1, "history_every": 7}, list(range(1, 16)), list(range(1, 16))),
    ],
)
def test_evaluations_are_where_they_are_asked_for_and_at_the_end(recipe, entries, evaluated):
    seen = []
    result, state, _ = trained(seen, epochs=3, **recipe)
    assert [entry["step"] for entry in result.history] == entries
    assert [entry["step"] for entry in result.history if "test_error" in entry] == evaluated
    assert all("train_loss" in entry and "train_error" in entry for entry in result.history)
    assert seen.count((False, 16)) == len(evaluated)
    plain, expected, _ = trained(epochs=3)
    assert all(torch.equal(state[key], expected[key]) for key in expected)  # what is measured changes nothing
    assert result.metrics["test_error"] == plain.metrics["test_error"]
    assert result.metrics["best_test_accuracy"] == 1 - min(
        entry["test_error"] for entry in result.history if "test_error" in entry
    )
    assert (result.metrics["first_epoch_accuracy"] is None) == (5 not in evaluated)


@pytest.mark.parametrize("on", ["test", "validation"])
def test_nothing_is_trained_and_evaluated_in_0_epochs(on):
    seen = []
    recipe = {"epochs": 0, "warmup_epochs": 2.0, "activation_checkpointing": True, "accumulate": 2}
    result, state, epochs = trained(seen, on=on, **recipe)
    assert not seen
    assert not epochs
    assert not result.diverged
    assert result.history == []
    assert result.speed == {}
    fresh = create_model("mlp", input_shape=SHAPE, num_classes=CLASSES, seed=0, width=8).state_dict()
    assert all(torch.equal(state[key], fresh[key]) for key in fresh)
    metrics = result.metrics
    assert metrics["steps"] == 0
    assert metrics["parameters"] == sum(p.numel() for p in fresh.values())
    assert metrics["diverged_at_step"] is None
    outcomes = {f"{on}_error", f"{on}_loss", "train_loss", "first_epoch_accuracy", f"best_{on}_accuracy"}
    assert outcomes <= metrics.keys()
    for name in metrics.keys() - {"steps", "parameters", "diverged_at_step"}:
        assert metrics[name] == "not trained" if name.endswith("_reason") else metrics[name] is None
        assert name.endswith("_reason") or metrics[f"{name}_reason"] == "not trained"


def test_measuring_needs_no_split_to_evaluate_on():
    assert trained(epochs=0, validation_size=0, on="validation")[0].metrics["steps"] == 0


def test_samples_per_second_are_of_the_steps_alone(monkeypatch):
    """On a clock of which a training step takes 1 s and an evaluation 100 s."""
    from initbench.training import run

    now = [0.0]
    step, evaluate = run.TrainingRun.step, run.TrainingRun.evaluate

    def taking(seconds, method):
        def timed(*arguments):
            now[0] += seconds
            return method(*arguments)

        return timed

    monkeypatch.setattr(run.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(run.TrainingRun, "step", taking(1, step))
    monkeypatch.setattr(run.TrainingRun, "evaluate", taking(100, evaluate))
    assert trained(epochs=2, history_every=2)[0].speed == {"samples_per_second": 8.0}
    assert trained(steps=7, evaluate_every=3)[0].speed == {"samples_per_second": 8.0}


def test_a_trial_records_its_speed():
    spec = TrialSpec(
        suite="s",
        architecture=ComponentSpec(name="mlp", arguments={"depth": 2, "width": 4}),
        initializer=ComponentSpec(name="kaiming"),
        dataset=DatasetSpec(name="gaussian", arguments={"train_size": 20}, inputs=Inputs((3, 32, 32)), outputs=10),
        recipe=Recipe(epochs=1, batch_size=10),
        probes=(),
        seed=0,
    )
    assert run_trial(spec).timing["samples_per_second"] > 0
    measured = run_trial(spec.model_copy(update={"recipe": Recipe(epochs=0)}))
    assert measured.status == "finished"
    assert "samples_per_second" not in measured.timing
    assert measured.metrics["test_error_reason"] == "not trained"
    assert measured.task["primary"] == "test_error"
