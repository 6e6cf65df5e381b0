"""The page on initializers for Transformers: is its table what comes of them now?"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield importlib.import_module("transformer_initializers")
    sys.path.remove(str(DOCS / "scripts"))
    del sys.modules["transformer_initializers"]


@pytest.fixture
def text():
    return (DOCS / "transformer_initializers.md").read_text(encoding="utf-8")


def test_every_method_has_a_row(script, text):
    described = text.split(script.BEGIN)[0]
    assert all(f"\n| `{method}` | " in described for method in script.METHODS)


@pytest.mark.usefixtures("scratch_registry")
def test_the_table_is_up_to_date(script, text):
    assert script.page() == text, "python docs/scripts/transformer_initializers.py --write"


def test_what_the_first_paragraph_says(script):
    works = {
        method: {network for network in script.NETWORKS if script.refusal(method, network) is None}
        for method in ("admin", "deepnorm", "tfixup")
    }
    post = {"`transformer`, norm post", "`gpt`, norm post"}
    assert works == {"admin": post, "deepnorm": post, "tfixup": {"`transformer`, norm none"}}
