"""Smoke trials of the shipped suites on the device: the smallest of each set of components, or of each new value."""

import math
import os
from pathlib import Path

import pytest
from trials import run, with_something_new

from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

SUITES = Path(__file__).parents[2] / "suites"
ALL = "INITBENCH_TEST_ALL_SMOKE_TRIALS" in os.environ
MOST = 50_000  # of `work`; larger trials take up to minutes


def work(trial):
    """Return about how much a step is, for comparison: positions times depth times channels squared, in units of 16.

    A layer counts as 1,000 at least, because each operation goes through Python on this device.
    """
    shape, arguments = trial.dataset.arguments["shape"], trial.architecture.arguments
    width = arguments.get("width", 1)
    channels = width / 16 if len(shape) < 3 else width  # the width of a network for images is a multiple of 16 channels
    return arguments.get("depth", 1) * max(1000, math.prod(shape) * channels**2)


def smoke_trials():
    """Return trials by suite and number."""
    trials = {
        f"{path.relative_to(SUITES)} {number}": trial
        for path in sorted(SUITES.rglob("*.yaml"))
        for number, trial in enumerate(smoke(plan_of(load_suite(str(path)))).trials)
    }
    smallest_first = sorted(
        ((name, trial) for name, trial in trials.items() if work(trial) <= MOST), key=lambda item: work(item[1])
    )
    if ALL:
        new = {id(trial) for trial in with_something_new([trial for _, trial in smallest_first])}
        return {name: trial for name, trial in smallest_first if id(trial) in new}
    chosen = {}
    for name, trial in smallest_first:
        chosen.setdefault((trial.architecture.name, trial.scheme, trial.initializer.name), name)
    return {name: trials[name] for name in chosen.values()}


TRIALS = smoke_trials()


@pytest.mark.filterwarnings("ignore::UserWarning:initbench")  # what an initializer says of a network
@pytest.mark.parametrize("name", TRIALS)
def test_smoke_trial(name):
    run(TRIALS[name], may_diverge=True)
