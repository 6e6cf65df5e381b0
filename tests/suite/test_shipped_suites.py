"""The suites that the project ships name components and arguments as they are called today."""

from pathlib import Path

import pytest

from initbench.suite.load import describe_datasets, load_suite
from initbench.suite.plan import plan

SUITES = sorted((Path(__file__).parents[2] / "suites").rglob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize("path", SUITES, ids=[path.stem for path in SUITES])
def test_a_suite_plans_trials_at_every_seed_and_each_once(path):
    suite = load_suite(path)
    found = plan(suite, descriptions=describe_datasets(suite))
    # Where files are absent, what the suite says of them is enough to try every model.
    waiting = [
        row.spec.model_copy(update={"dataset": part.described}) for part, rows in found.waiting.items() for row in rows
    ]
    trials = [*found.trials, *waiting]
    assert {trial.seed for trial in trials} == set(suite.seeds)
    assert len({trial.id for trial in trials}) == len(trials) > 0
