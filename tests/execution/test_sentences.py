"""Trials on pairs of sentences: killed and continued, planned, tuned, probed and smoke-run."""

from __future__ import annotations

import pytest
from interrupted import numbers, run_killed, settings
from sentence_models import bag_translator

from initbench.errors import SuiteError
from initbench.execution.preflight import check_data
from initbench.execution.trial import run_trial
from initbench.registry import register_architecture
from initbench.suite.smoke import smoke
from suites import made, plan_of, planned, the_trial

NUMBERS = {"name": "number_words", "train_size": 60, "validation_size": 8, "test_size": 20}
SUITE = {
    "dataset": NUMBERS,
    "architectures": [{"name": "bag_translator", "width": 4}],
    "initializers": ["pytorch_default"],
    "recipe": {"epochs": 2, "batch_tokens": 100, "optimizer": "adam", "lr": 0.01, "label_smoothing": 0.1},
}


@pytest.fixture(autouse=True)
def _architecture(scratch_registry):
    del scratch_registry
    register_architecture("bag_translator", tasks=("translation",))(bag_translator)


def test_a_killed_trial_ends_with_the_record_of_one_that_was_not(tmp_path):
    recipe = SUITE["recipe"] | {"accumulate": 2, "history_every": 3}
    spec = the_trial(**SUITE | {"recipe": recipe})
    whole = run_trial(spec)
    assert whole.status == "finished"
    assert whole.metrics["steps"] > 10
    # Within the first epoch, before an entry of the history and after one, and within the second.
    assert numbers(run_killed(spec, settings(tmp_path / "checkpoints"), 2, 5, 3)) == numbers(whole)


def test_the_record_has_the_loss_and_its_chance():
    record = run_trial(the_trial(**SUITE))
    assert record.task["primary"] == "test_loss"
    described = record.task["metrics"]["test_loss"]
    assert 2 < described["chance"] < 3.53  # less than ln 34
    assert record.metrics["test_loss"] > 0
    assert record.metrics["best_test_loss"] <= record.metrics["first_epoch_loss"]
    assert record.timing["samples_per_second"] > 0


@pytest.mark.parametrize("data", ["random", "real"])
def test_tuners_and_probes_have_random_and_real_sentences(data):
    tuner = {"name": "metainit", "steps": 2, "batch_size": 4, "data": data}
    probes = [{"name": name, "data": data} for name in ("gradient_quotient", "initial_loss", "signal_by_depth")]
    record = run_trial(the_trial(**SUITE | {"initializers": [tuner], "probes": probes}))
    assert record.status == "finished"
    assert record.initialization["conditions"]["data"] == data
    found = {probe["name"].partition("[")[0].partition(".")[0] for probe in record.probes}
    assert found == {"gradient_quotient", "initial_loss", "signal_by_depth"}


def test_a_smoke_run_needs_no_lengths():
    [trial] = smoke(planned(**SUITE)).trials
    assert trial.recipe.batch_tokens is None
    assert trial.recipe.label_smoothing == 0.1
    assert trial.dataset.task == "translation"
    assert run_trial(trial).status == "finished"


def test_a_sentence_that_no_batch_holds_is_refused_before_the_run():
    suite = made(**SUITE | {"recipe": SUITE["recipe"] | {"batch_tokens": 5}})
    # Of the longest numbers, such as 121,222.
    with pytest.raises(SuiteError, match=r"batch_tokens: must be at least 12, .* got 5") as refusal:
        check_data(suite, plan_of(suite).trials)
    assert "\n" not in str(refusal.value)


def test_other_tasks_are_incompatible_with_batches_of_tokens():
    plan = planned(recipe={"batch_tokens": 100})
    assert not plan.trials
    assert "batch_tokens is not for task classification" in str(plan.reasons)
