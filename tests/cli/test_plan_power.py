"""`initbench plan SUITE --power`: from a pilot or a stated spread to what can be detected."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from ledgers import ERROR, KAIMING, REGRESSION, make_record, make_scored, make_spec, task_of

from initbench.cli.command_line import main
from initbench.cli.power import power_sentences
from initbench.ledger import Ledger
from initbench.metric import Metric
from initbench.statistics.power import detectable_difference, planning_spread, seeds_needed, stated_spread
from initbench.suite.load import load_suite
from suites import VALID, plan_of


@pytest.fixture
def show(tmp_path, monkeypatch, capsys):
    """Run `initbench plan suite.yaml --power` with further options and return what it prints."""
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(VALID, encoding="utf-8")

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["initbench", "plan", "suite.yaml", *options])
        main()
        return capsys.readouterr().out

    return run


def fails(show, capsys, *options):
    with pytest.raises(SystemExit) as stop:
        show(*options)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_a_stated_spread(show):
    options = ("--power", "--seed-deviation", "0.01", "--seeds", "4", "--json")
    data = json.loads(show(*options))["power"]
    spread = stated_spread(0.01).difference
    assert (data["seeds"], data["treatments"], data["comparisons"]) == (4, 2, 1)
    suite = (1, 2, 2)  # 1 comparison, 2 treatments, 2 workloads with both
    assert data["detectable_difference"] == pytest.approx(detectable_difference(spread, 4, *suite))
    assert data["seeds_needed"] == seeds_needed(0.01, spread, *suite)
    assert data["few_seeds_needed"] is None
    assert data["detectable_correlation"] is None
    text = show(*options[:-1])
    assert f"with 4 seeds a difference of {100 * data['detectable_difference']:.2f} points" in text
    assert f"a difference of 1.00 points needs {data['seeds_needed']} seeds" in text
    assert "with 2 initializers no relation" in text


def test_the_seeds_of_a_tuned_suite_are_those_of_its_final_trials(show):
    """Its plan has one search for all seeds, and no final trial before that has ended."""
    tune = "tune: {recipe.lr: [0.01, 0.1], search: once, protocols: [own]}\n"
    Path("suite.yaml").write_text(VALID + tune, encoding="utf-8")
    data = json.loads(show("--power", "--seed-deviation", "0.01", "--seeds", "4", "--json"))["power"]
    assert (data["seeds"], data["treatments"], data["comparisons"]) == (4, 2, 1)


def test_up_to_five_seeds_can_be_enough_where_six_are_not():
    power = {"metric": ERROR.to_json(), "source": "a pilot", "compare": ["initializer"]}
    power |= {"seeds": 5, "treatments": 10, "comparisons": 45, "seed_difference_deviation": 0.01}
    power |= {"detectable_difference": 0.01, "detectable_difference_all_pairs": 0.02, "detectable_correlation": 0.8}
    power |= {"difference": 0.03, "seeds_needed": 4, "few_seeds_needed": 4}
    for few, needed, text in ((3, 7, "3 to 5 or at least 7"), (5, 11, "5 or at least 11"), (None, None, "over 10,000")):
        power |= {"seeds_needed_all_pairs": needed, "few_seeds_needed_all_pairs": few}
        line = power_sentences(power)[2]
        assert line == f"power: a difference of 3.00 points needs 4 seeds (all 45 pairs: {text})"


def test_two_seeds_are_no_interval(show):
    assert "with 2 seeds there is no interval; 3 seeds are needed" in show("--power", "--seed-deviation", "0.01")


def test_a_pilot_is_the_suites_own_ledger_by_default(show):
    show()
    ledger = Ledger(Path("runs/valid"))
    errors = {"kaiming": [0.10, 0.12], "metainit": [0.10, 0.16]}
    for trial in plan_of(load_suite("suite.yaml")).trials:
        if trial.architecture.arguments["depth"] == 10:
            ledger.write(make_record(trial, errors[trial.initializer.name][trial.seed]))
    data = json.loads(show("--power", "--json"))["power"]
    # The differences 0 and 0.04 have the standard deviation 0.04 / √2; one workload, one degree of freedom.
    assert data["seed_difference_deviation"] == pytest.approx(0.04 / 2**0.5)
    assert data["degrees_of_freedom"] == 1
    pilot = json.loads(show("--power", "--json", "--spread-from", "runs/valid", "--difference", "0.1"))["power"]
    assert pilot["seeds_needed"] == seeds_needed(0.1, planning_spread(0.04 / 2**0.5, 1), 1, 2, 2)


def test_a_pilot_tells_the_spread_within_what_the_suite_compares(show):
    """One initializer at two learning rates: the differences are 0 and 0.04, as above."""
    Path("suite.yaml").write_text(f"{VALID}\ncompare: [recipe.lr]\n", encoding="utf-8")
    show()
    ledger = Ledger(Path("pilot"))
    for lr, errors in ((0.1, (0.10, 0.12)), (0.01, (0.10, 0.16))):
        for seed, error in enumerate(errors):
            ledger.write(make_record(make_spec(KAIMING, seed=seed, recipe={"lr": lr}), error))
    data = json.loads(show("--power", "--json", "--spread-from", "pilot"))["power"]
    assert data["seed_difference_deviation"] == pytest.approx(0.04 / 2**0.5)
    assert data["compare"] == ["recipe.lr"]
    text = show("--power", "--spread-from", "pilot")
    assert "the paired difference of two treatments has" in text
    assert "treatments no relation between a probe and the outcome" in text
    assert "initializers" not in text.partition("power:")[2]


def test_a_pilot_is_of_the_same_task_and_has_what_is_compared(show, capsys):
    named_alike = task_of(Metric("error", better="lower", primary=True).on("test"), name="regression")
    for task, message in (
        (named_alike, "pilot: a pilot of test error (regression) says nothing about the test error (classification)"),
        (REGRESSION, "pilot: a pilot of test R² (regression) says nothing about the test error (classification)"),
    ):
        spec = make_spec(KAIMING, dataset={"name": task["primary"]}, task="regression")
        Ledger(Path("pilot")).write(make_scored(spec, task, 0.1))
        assert message in fails(show, capsys, "--power", "--spread-from", "pilot")
        shutil.rmtree("pilot")
    Path("suite.yaml").write_text(f"{VALID}\ncompare: [initializer.steps]\n", encoding="utf-8")
    Ledger(Path("pilot")).write(make_record(make_spec(KAIMING), 0.1))
    error = fails(show, capsys, "--power", "--spread-from", "pilot")
    assert "pilot: compare: no trial has initializer.steps" in error


def test_the_options_are_of_any_metric(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["initbench", "plan", "--help"])
    main()
    assert "test error" not in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--power"], "give --spread-from DIR or --seed-deviation"),
        (["--power", "--spread-from", "absent"], "absent: no trial records"),
        (["--power", "--seed-deviation", "0"], "must be positive, got 0.0"),
        (["--power", "--seed-deviation", "0.1", "--spread-from", "x"], "not both"),
        (["--power", "--seed-deviation", "0.1", "--difference", "-1"], "--difference must be positive"),
        (["--power", "--seed-deviation", "0.1", "--difference", "5"], "--difference is a fraction (0.01 is one point)"),
        (["--power", "--seed-deviation", "1"], "--seed-deviation is a fraction (0.01 is one point)"),
        (["--seed-deviation", "0.1"], "needs --power"),
        (["--difference", "5"], "needs --power"),
        (["--difference", "0.01"], "needs --power"),  # the default, but said
    ],
)
def test_bad_requests_are_one_line(show, capsys, options, message):
    error = fails(show, capsys, *options)
    assert message in error
    assert error.count("\n") == 1
