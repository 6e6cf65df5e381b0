"""The smoke trials of the shipped suites on the device."""

from pathlib import Path

import pytest
from trials import run

from initbench.suite.load import load_suite
from initbench.suite.smoke import smoke
from suites import plan_of

SUITES = Path(__file__).parents[2] / "suites"
ALL = sorted(str(path.relative_to(SUITES)) for path in SUITES.rglob("*.yaml"))


@pytest.mark.parametrize("name", ALL)
def test_smoke_trials(name):
    for trial in smoke(plan_of(load_suite(str(SUITES / name)))).trials:
        run(trial)
