"""Every suite of a paper runs, its networks made shallow and narrow: its recipes, initializers, probes and schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from initbench.execution.trial import run_trial
from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

PAPERS = sorted((Path(__file__).parents[2] / "suites" / "papers").glob("*.yaml"))
# The shallowest networks that have every kind of block of the paper's, and the narrowest.
SMALL = {
    "densenet": {"depth": 10},
    "imagenet_resnet": {"depth": 50, "width": 16},  # the shallowest with bottlenecks
    "mlp": {"depth": 2},
    "plain": {"depth": 10, "width": 1},
    "resnet": {"depth": 8},
    "vgg": {"depth": 11, "width": 0.125},
    "wrn": {"depth": 10, "width": 1},
}


def small(trial):
    """Return a trial on a network of the same kind that is as small as its architecture has one."""
    own, less = trial.architecture.arguments, SMALL[trial.architecture.name]
    less = {} if own.get("widths") else less  # widths say themselves how many layers there are
    architecture = trial.architecture.model_copy(update={"arguments": {**own, **less}})
    return trial.model_copy(update={"architecture": architecture})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta_orthogonal does not keep the norm")  # nor does it in the paper's bottlenecks
@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_every_part_of_a_papers_suite_runs(path):
    own = {trial.id: trial for trial in map(small, smoke(plan_of(load_suite(path))).trials)}
    assert own
    for trial in own.values():
        record = run_trial(trial)
        # Two steps at a paper's rate may be too many for a net whose BatchNorms were taken away.
        assert record.status == "finished" or trial.scheme == "channel_bias", (trial.initializer, trial.architecture)
        losses = [entry["train_loss"] for entry in record.history if "train_loss" in entry]
        assert record.status == "diverged" or torch.tensor(losses).isfinite().all()
