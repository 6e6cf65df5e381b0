"""The suites that the tests of suites start from: as text, and as plain data."""

from __future__ import annotations

import copy

from initbench.suite.document import Document
from initbench.suite.load import describe_datasets, suite_of
from initbench.suite.overrides import override
from initbench.suite.part import Row
from initbench.suite.plan import Plan, plan

VALID = """\
name: valid
dataset: digits
architectures:
  - {name: plain, depth: [10, 16], width: 1, norm: none}
  - {name: mlp, width: 8}
initializers:
  - kaiming
  - {name: metainit, base: delta_orthogonal, steps: 2}
recipe: {epochs: 1, lr: 0.1}
rules:
  - {when: {architecture: plain}, recipe: {clip_norm: 1.0}}
exclude: [{architecture: mlp, initializer: metainit}]
probes: [gradient_norm]
seeds: 2
resources: {cpus: 1}
"""


def edited(*edits: tuple[str, str]) -> str:
    """The valid suite with parts of its text replaced, each of which it must have."""
    text = VALID
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


BASE = {
    "name": "s",
    "dataset": "digits",
    "architectures": [{"name": "mlp", "width": 8}],
    "initializers": ["xavier"],
    "probes": [],
}


def planned(*, only=(), assignments=(), **keys):
    """The plan of a suite as plain data, with these keys in place of the base's."""
    return plan_of(made(assignments=assignments, **keys), only)


def made(*, assignments=(), **keys):
    """A suite as plain data, with these keys in place of the base's."""
    document = Document("suite.yaml", "", copy.deepcopy(BASE | keys))
    for assignment in assignments:
        override(document, assignment)
    return suite_of(document)


def plan_of(suite, only=()):
    """The plan of a suite whose datasets are described here."""
    return plan(suite, only, descriptions=describe_datasets(suite))


def plan_of_trials(trials):
    """A plan in which these trials run, whatever they are made of."""
    return Plan(tuple(Row(trial, parts=None) for trial in trials))


def the_trial(**keys):
    """The only trial of such a suite."""
    [trial] = planned(**keys).trials
    return trial


def ids(result):
    """The ids of a plan's trials, in their order."""
    return [trial.id for trial in result.trials]
