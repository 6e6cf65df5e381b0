"""Puts this folder on the import path, for the helpers that several test files share; chooses among slow tests."""

import os
from collections import Counter

import pytest

# Side by side (`pytest -n 2`) a process is given one thread: more than there are cores would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # By Ray's own niceness of 15 a trial would stand still while the tests of the other process keep a core busy.
    os.environ.setdefault("RAY_worker_niceness", "0")

import reach

from initbench import registry
from initbench.training.named_recipes import RECIPES

EVERY = (*registry.REGISTRIES, RECIPES)


@pytest.fixture
def scratch_registry():
    """The built-ins alone; what a test registers is forgotten after it, and what others have registered comes back."""
    others = {}
    for r in EVERY:
        others[r.kind] = {name: c for name, c in r._registered.items() if name not in r.builtins}
        _forget_plugins(r)
    yield
    for r in EVERY:
        _forget_plugins(r)
        r._registered.update(others[r.kind])


def _forget_plugins(components):
    for name in set(components._registered) - set(components.builtins):
        del components._registered[name]


def pytest_addoption(parser):
    group = parser.getgroup("slow tests", "which of the slow tests run, and how long they take")
    group.addoption("--since", metavar="COMMIT", help="first those that what has changed since then can reach")
    group.addoption("--turn", metavar="K/N", help="and of all of them the part whose turn it is, such as 1/8")
    group.addoption("--keep-durations", action="store_true", help=f"write {reach.DURATIONS.name} anew")


@pytest.hookimpl(trylast=True)  # of the tests that -m and -k leave
def pytest_collection_modifyitems(config, items):
    """Keep the tests that `reach.Choice` chooses, in its order."""
    if config.option.turn is None:
        return
    turn, turns = map(int, config.option.turn.split("/"))
    by_id = {item.nodeid: item for item in items}
    changed = set() if config.option.since is None else reach.changed_since(config.option.since)
    choice = reach.chosen({test: item.path for test, item in by_id.items()}, changed, turn - 1, turns)
    items[:] = [by_id[test] for test in choice.run]
    config.hook.pytest_deselected(items=[by_id[test] for test in (*choice.late, *choice.others)])
    config.left_out = reach.told(choice)
    if changed is None:
        config.left_out += f"\nthis clone has no commit {config.option.since}: any test may be within reach"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Have what a process of xdist left out told by the one that prints."""
    node.config.left_out = getattr(node, "workeroutput", {}).get("left_out", "")


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = getattr(session.config, "left_out", "")


def pytest_terminal_summary(terminalreporter, config):
    if getattr(config, "left_out", ""):
        terminalreporter.section("left out of the slow tests")
        terminalreporter.write_line(config.left_out)
    if config.option.keep_durations:
        took = Counter()
        for report in (one for reports in terminalreporter.stats.values() for one in reports):
            if isinstance(report, pytest.TestReport):
                took[report.nodeid] += report.duration
        reach.keep_durations(took)
