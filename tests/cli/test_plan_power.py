"""`initbench plan SUITE --power`: from a pilot or a stated spread to what can be detected."""

import json
import sys
from pathlib import Path

import pytest
from ledgers import make_record

from initbench.cli import main
from initbench.ledger import Ledger
from initbench.reporting.statistics.power import detectable_difference, seeds_needed, stated_spread
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
    assert (data["seeds"], data["initializers"], data["comparisons"]) == (4, 2, 1)
    assert data["detectable_difference"] == pytest.approx(detectable_difference(spread, 4))
    assert data["seeds_needed"] == seeds_needed(0.01, spread)
    assert data["detectable_correlation"] is None
    text = show(*options[:-1])
    assert f"with 4 seeds a difference of {100 * data['detectable_difference']:.2f} points" in text
    assert f"a difference of 1.00 points needs {data['seeds_needed']} seeds" in text
    assert "with 2 initializers no relation" in text


def test_two_seeds_are_no_interval(show):
    assert "with 2 seeds there is no interval; it takes 3" in show("--power", "--seed-deviation", "0.01")


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
    pilot = json.loads(show("--power", "--json", "--pilot", "runs/valid", "--difference", "0.1"))["power"]
    assert pilot["seeds_needed"] == seeds_needed(0.1, 0.04 / 2**0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--power"], "give --pilot DIR or --seed-deviation"),
        (["--power", "--pilot", "absent"], "absent: no trial records"),
        (["--power", "--seed-deviation", "0"], "must be positive, got 0.0"),
        (["--power", "--seed-deviation", "0.1", "--pilot", "x"], "not both"),
        (["--power", "--seed-deviation", "0.1", "--difference", "-1"], "--difference must be positive"),
        (["--power", "--seed-deviation", "0.1", "--difference", "5"], "--difference is a fraction (0.01 is one point)"),
        (["--power", "--seed-deviation", "1"], "--seed-deviation is a fraction (0.01 is one point)"),
        (["--seed-deviation", "0.1"], "go with --power"),
        (["--difference", "5"], "go with --power"),
        (["--difference", "0.01"], "go with --power"),  # the default, but said
    ],
)
def test_bad_requests_are_one_line(show, capsys, options, message):
    error = fails(show, capsys, *options)
    assert message in error
    assert error.count("\n") == 1
