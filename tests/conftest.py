"""Puts this folder on the import path, for the helpers that several test files share."""

import os

import pytest

# Side by side (`pytest -n 2`) a process is given one thread: more than there are cores would wait for one another.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # By Ray's own niceness of 15 a trial would stand still while the tests of the other process keep a core busy.
    os.environ.setdefault("RAY_worker_niceness", "0")

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
