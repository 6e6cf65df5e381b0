"""One store for each test file, with one experiment per test."""

import pytest
from stores import Store

from initbench.tracking.uri import default_tracking_uri


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("a folder & its store")


@pytest.fixture
def store(folder, request):
    return Store(folder, default_tracking_uri(folder), request.node.name)
