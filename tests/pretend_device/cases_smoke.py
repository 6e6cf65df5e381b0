"""The smoke trials of the shipped suites on the device: one for each set of components, or all of them."""

import os
from pathlib import Path

import pytest
from trials import run

from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

SUITES = Path(__file__).parents[2] / "suites"
ALL = "INITBENCH_TEST_ALL_SMOKE_TRIALS" in os.environ


def smoke_trials():
    """Return the smoke trials by suite and number; of those with equal components, the first."""
    chosen = {}
    for path in sorted(SUITES.rglob("*.yaml")):
        for number, trial in enumerate(smoke(plan_of(load_suite(str(path)))).trials):
            components = trial.architecture.name, trial.scheme, trial.initializer.name
            name = f"{path.relative_to(SUITES)} {number}"
            chosen.setdefault(name if ALL else components, (name, trial))
    return dict(chosen.values())


TRIALS = smoke_trials()


@pytest.mark.parametrize("name", TRIALS)
def test_smoke_trial(name):
    run(TRIALS[name])
