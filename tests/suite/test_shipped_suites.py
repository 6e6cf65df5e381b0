"""Every suite that the project ships is read, planned and run with its networks as small as a smoke run makes them.

The suites of papers have networks that are too large for that: theirs are made shallow and narrow, too.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from initbench.cli.command_line import main
from initbench.execution import in_process
from initbench.execution.trial import attempt_trial
from initbench.ledger import Ledger
from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

ROOT = Path(__file__).parents[2] / "suites"
PAPERS = sorted((ROOT / "papers").glob("*.yaml"))
OTHERS = sorted({*ROOT.rglob("*.yaml")} - {*PAPERS})
# The shallowest networks that have every kind of block of the paper's, and the narrowest.
SMALL = {
    "densenet": {"depth": 10},
    "gpt": {"depth": 2, "width": 32, "heads": 2},
    "imagenet_resnet": {"depth": 50, "width": 16},  # the shallowest with bottlenecks
    "mlp": {"depth": 2},
    "plain": {"depth": 10, "width": 1},
    "resnet": {"depth": 8},
    "transformer": {"depth": 2, "width": 32, "heads": 2, "hidden": 64},
    "vgg": {"depth": 11, "width": 0.125},
    "wrn": {"depth": 10, "width": 1},
}
# As in papers' bottlenecks.
NOT_ORTHOGONAL = pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")


def name(path):
    return path.relative_to(ROOT).with_suffix("").as_posix()


@pytest.fixture
def attempt(tmp_path_factory):
    """Run a trial, which is not run again where it has finished for another suite, be it in another process."""
    shared = tmp_path_factory.getbasetemp()
    ledger = Ledger((shared.parent if shared.name.startswith("popen-") else shared) / "smoke_trials")
    return partial(run_once, ledger)


def run_once(ledger, spec, *arguments):
    if ledger.path(spec.id).exists():
        return ledger.read(spec.id).labelled_as(spec)
    record = attempt_trial(spec, *arguments)
    if record.status != "failed":
        ledger.write(record)
    return record


@pytest.fixture
def initbench(tmp_path, monkeypatch, capsys):
    """Run a command, which is to succeed, and return its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["initbench", *map(str, arguments)])
        main()
        return capsys.readouterr().out

    return run


def planned(path, initbench):
    """Return a suite's plan, which has every seed, and each trial once."""
    suite = load_suite(path)
    plan = plan_of(suite)
    # Where files are absent, what the suite says of them is enough to try every model.
    waiting = [
        row.spec.model_copy(update={"dataset": part.described}) for part, rows in plan.waiting.items() for row in rows
    ]
    trials = [*plan.trials, *waiting]
    assert {trial.seed for trial in trials} == set(suite.seeds)
    assert len({trial.id for trial in trials}) == len(trials) > 0
    assert json.loads(initbench("plan", path, "--json"))["trials"] == len(trials)
    return plan


# ResNet-50 with images of 32×32 costs a fiftieth.
FEWER_PIXELS = {"imagenet_resnet50": ("--set", "dataset.image_size=32", "--set", "dataset.resize=36")}


@pytest.mark.slow
@NOT_ORTHOGONAL
@pytest.mark.parametrize("path", OTHERS, ids=name)
def test_a_suite_is_planned_and_smoke_runs(path, initbench, attempt, monkeypatch):
    planned(path, initbench)
    asked = path, "--smoke", *FEWER_PIXELS.get(path.stem, ())
    trials = json.loads(initbench("plan", *asked, "--json"))["trials"]
    monkeypatch.setattr(in_process, "attempt_trial", attempt)
    initbench("run", *asked, "--executor", "in-process")
    [folder] = Path("runs").iterdir()
    assert (folder / "report" / "index.html").is_file()
    statuses = Ledger(folder).statuses()
    assert len(statuses) == trials > 0
    assert set(statuses.values()) <= {"finished", "diverged"}


def small(trial):
    """Return a trial on a network of the same kind that is as small as its architecture has one."""
    own, less = trial.architecture.arguments, SMALL[trial.architecture.name]
    less = {} if own.get("widths") else less  # widths say themselves how many layers there are
    architecture = trial.architecture.model_copy(update={"arguments": {**own, **less}})
    return trial.model_copy(update={"architecture": architecture})


@pytest.mark.slow
@NOT_ORTHOGONAL
@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_a_papers_suite_is_planned_and_each_of_its_parts_runs(path, initbench, attempt):
    trials = {trial.id: trial for trial in map(small, smoke(planned(path, initbench)).trials)}
    assert trials
    for trial in trials.values():
        record = attempt(trial)
        assert record.status != "failed", record.error
        # Two steps at a paper's rate may be too many for a net whose BatchNorms were taken away.
        assert record.status == "finished" or trial.scheme == "channel_bias", (trial.initializer, trial.architecture)
        losses = [entry["train_loss"] for entry in record.history if "train_loss" in entry]
        assert record.status == "diverged" or torch.tensor(losses).isfinite().all()
