"""Puts this folder on the import path, for the helpers that several test files share."""

import pytest

from initbench import registry

REGISTRIES = (registry.INITIALIZERS, registry.ARCHITECTURES, registry.DATASETS, registry.PROBES)


@pytest.fixture
def scratch_registry():
    """Whatever a test registers is forgotten after it; built-ins that it has imported stay."""
    before = {r.kind: set(r._registered) for r in REGISTRIES}
    yield
    for r in REGISTRIES:
        for name in set(r._registered) - before[r.kind] - set(r.builtins):
            del r._registered[name]
