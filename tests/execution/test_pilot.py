"""What is left of a suite takes as long as its parts: from trials whose seconds are known in closed form."""

import json
import sys
from dataclasses import replace

import pytest
from ledgers import make_record, write_ledger

from initbench.cli.command_line import main
from initbench.cli.pilot import LONGER, SHORT, pilot, pilot_sentences, plan_pilot
from initbench.errors import InitbenchError
from initbench.ledger import Ledger
from initbench.suite.load import load_suite
from suites import plan_of, planned

HERE = {"device": "cpu", "processor": "a processor"}
KEYS = {
    "dataset": {"name": "digits", "train_size": 640},
    "architectures": [{"name": "mlp", "depth": [2, 3], "width": 8}],
    "initializers": ["kaiming", {"name": "metainit", "base": "kaiming", "steps": 2}],
    "recipe": {"epochs": 20, "batch_size": 32, "warmup_epochs": 1.0},
    "seeds": 3,
}
BEFORE, EVALUATION = 1.5, 0.25


def per_step(trial):
    return 0.01 * trial.architecture.arguments["depth"]


def took(trial, steps, evaluations=1):
    """The record of a trial that takes so many steps, with the seconds of each part."""
    training = steps * per_step(trial) + evaluations * EVALUATION
    timing = {"total_seconds": BEFORE + training, "training_seconds": training}
    record = make_record(trial, metrics={"steps": steps})
    return replace(record, timing=timing, environment=record.environment | HERE)


class Runs:
    """Takes trials, and remembers them."""

    def __init__(self):
        self.trials = []

    def __call__(self, trial):
        self.trials.append(trial)
        return took(trial, trial.recipe.steps)


def test_a_workload_takes_what_two_short_trials_say():
    plan, run = planned(**KEYS), Runs()
    costs = pilot(plan.trials, (), ("initializer",), run, HERE)
    assert [cost.trials for cost in costs] == [6, 6]
    for cost, depth in zip(costs, (2, 3), strict=True):
        # 640 samples by 32 are 20 steps in each of 20 epochs, after each of which there is an evaluation.
        assert cost.seconds == pytest.approx(BEFORE + 400 * 0.01 * depth + 20 * EVALUATION, rel=1e-9)
        assert cost.seconds_per_step == pytest.approx(0.01 * depth, rel=1e-9)
        assert cost.tuned == ("metainit",)
    # Two for each workload, of what only draws.
    assert [(t.architecture.arguments["depth"], t.recipe.steps) for t in run.trials] == [
        (depth, steps) for depth in (2, 3) for steps in (SHORT, LONGER)
    ]
    assert {trial.initializer.name for trial in run.trials} == {"kaiming"}
    assert {trial.recipe.batch_size for trial in run.trials} == {32}


def test_what_the_ledger_knows_on_this_device_goes_before():
    plan, run = planned(**KEYS), Runs()
    first, *_ = (t for t in plan.trials if t.architecture.arguments["depth"] == 2 and t.initializer.name == "metainit")
    known = replace(took(first, 400), timing={"total_seconds": 60.0})
    elsewhere = replace(known, environment=known.environment | {"processor": "another one"})
    missing = [trial for trial in plan.trials if trial.id != first.id]
    two, three = pilot(missing, [known], ("initializer",), run, HERE)
    whole = BEFORE + 400 * 0.02 + 20 * EVALUATION
    assert (two.trials, two.recorded, two.tuned) == (5, 2, ())
    assert two.seconds == pytest.approx((2 * 60 + 3 * whole) / 5, rel=1e-9)
    assert (three.recorded, three.tuned) == (0, ("metainit",))
    two, _ = pilot(missing, [elsewhere], ("initializer",), run, HERE)
    assert two.recorded == 0
    ran = len(run.trials)
    every = [replace(took(t, 400), timing={"total_seconds": 7.0}) for t in plan.trials[:4]]
    assert [cost.seconds for cost in pilot(missing, every, ("initializer",), run, HERE)] == [7.0, 7.0]
    assert len(run.trials) == ran


def test_a_short_trial_that_fails_is_told_and_its_workload_is_not_known():
    plan = planned(**KEYS)
    error = {"type": "RuntimeError", "message": "out of memory", "traceback": ""}

    def run(trial):
        if trial.architecture.arguments["depth"] == 2:
            return took(trial, trial.recipe.steps)
        return make_record(trial, status="failed", error=error)

    two, three = pilot(plan.trials, (), ("initializer",), run, HERE)
    assert two.seconds is not None
    assert (three.seconds, three.problem) == (None, "RuntimeError: out of memory")


SUITE = """\
name: small
dataset: {name: digits, train_size: 64}
architectures: [{name: mlp, depth: [2, 3], width: 8}]
initializers: [kaiming, {name: metainit, base: kaiming, steps: 2}]
recipe: {epochs: 1}
probes: []
"""


def test_really_run_it_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    (tmp_path / "suite.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", "--pilot", "--price", "2", "--json"])
    main()
    found = json.loads(capsys.readouterr().out)["pilot"]
    assert [entry["trials"] for entry in found["workloads"]] == [2, 2]
    assert all(0 < entry["seconds"] < 60 for entry in found["workloads"])
    assert found["cost"] == pytest.approx(2 * found["hours"], rel=1e-9)
    assert found["hours"] == pytest.approx(sum(2 * e["seconds"] / 3600 for e in found["workloads"]), rel=1e-9)
    assert [path.name for path in tmp_path.iterdir()] == ["suite.yaml"]
    told = pilot_sentences(found)
    assert len(told) == 4
    assert "from two short trials of" in told[0]
    assert "one trial at a time" in told[2]
    assert told[3].startswith("pilot: not included: the steps that metainit takes before training")


def test_with_all_in_the_ledger_nothing_is_left(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    suite = load_suite(tmp_path / "suite.yaml")
    plan = plan_of(suite)
    write_ledger(tmp_path / "runs", [make_record(trial) for trial in plan.trials])
    found = plan_pilot(suite, plan, Ledger(tmp_path / "runs").folder, workers=4)
    assert (found["trials"], found["hours"], found["workers"]) == (0, 0, 4)
    assert pilot_sentences(found) == ["pilot: no trial is left to run"]
    with pytest.raises(InitbenchError, match="--price must be at least 0"):
        plan_pilot(suite, plan, tmp_path, price=-1.0)


def test_final_trials_that_follow_from_searches_cost_what_the_others_do(tmp_path, monkeypatch):
    """Two initializers with three searches, one trial as written and two that are awaited each."""
    monkeypatch.setattr("initbench.cli.pilot.attempt_trial", lambda trial, **_: took(trial, trial.recipe.steps))
    text = SUITE.replace("depth: [2, 3]", "depth: 2").replace("epochs: 1", "epochs: 1, lr: 1.0")
    (tmp_path / "suite.yaml").write_text(text + "tune: {recipe.lr: [0.01, 0.1, 1.0]}\n")
    suite = load_suite(tmp_path / "suite.yaml")
    found = plan_pilot(suite, plan_of(suite), tmp_path / "runs")
    assert (found["trials"], found["awaited"]) == (2 * (3 + 1 + 2), 4)
    [cost] = found["workloads"]
    assert cost["trials"] == 12
    assert found["hours"] == pytest.approx(12 * cost["seconds"] / 3600)
    told = "pilot: this includes 4 final trials that the searches lead to; equal ones run once"
    assert told in pilot_sentences(found)


@pytest.mark.parametrize("options", [["--workers", "2"], ["--price", "1"]])
def test_options_of_the_pilot_without_it_are_one_line(tmp_path, monkeypatch, capsys, options):
    (tmp_path / "suite.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", *options])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"initbench: {options[0]} needs --pilot\n"
