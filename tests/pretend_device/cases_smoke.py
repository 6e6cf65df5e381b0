"""The smoke trials of the shipped suites on the device: the smallest of each set of components, or all of them."""

import math
import os
from pathlib import Path

import pytest
from trials import run

from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

SUITES = Path(__file__).parents[2] / "suites"
ALL = "INITBENCH_TEST_ALL_SMOKE_TRIALS" in os.environ
LARGE = 3 * 64 * 64  # numbers in a sample; trials with larger ones take up to minutes


def work(trial):
    """Return about how much work a step is: positions times depth times channels squared."""
    arguments = trial.architecture.arguments
    return math.prod(trial.dataset.arguments["shape"]) * arguments.get("depth", 1) * arguments.get("width", 1) ** 2


def smoke_trials():
    """Return trials by suite and number."""
    trials = {
        f"{path.relative_to(SUITES)} {number}": trial
        for path in sorted(SUITES.rglob("*.yaml"))
        for number, trial in enumerate(smoke(plan_of(load_suite(str(path)))).trials)
    }
    if ALL:
        return trials
    small = {name: trial for name, trial in trials.items() if math.prod(trial.dataset.arguments["shape"]) <= LARGE}
    chosen = {}
    for name in sorted(small, key=lambda name: work(small[name])):
        trial = small[name]
        chosen.setdefault((trial.architecture.name, trial.scheme, trial.initializer.name), name)
    return {name: small[name] for name in chosen.values()}


TRIALS = smoke_trials()


@pytest.mark.parametrize("name", TRIALS)
def test_smoke_trial(name):
    run(TRIALS[name], may_diverge=True)
