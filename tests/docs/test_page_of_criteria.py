"""The how-to page of claims names every kind of criterion and every key, and its examples are valid."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from pages import DOCS, blocks
from pydantic import TypeAdapter
from ruamel.yaml import YAML

from initbench.claims.claim import Claim
from initbench.claims.criteria import CRITERIA, AnyCriterion

PAGE = DOCS / "how_to" / "judge_a_papers_claims.md"
ROWS = set(re.findall(r"^\| `(\w+)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE))
EXAMPLES = [block.text for block in blocks(PAGE) if block.language == "yaml" and block.title != "claimed.yaml"]


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: criterion.__name__)
def test_each_kind_has_a_row_and_each_key_is_explained(criterion):
    (kind,) = get_args(criterion.model_fields["judge"].annotation)
    assert kind in ROWS
    text = PAGE.read_text(encoding="utf-8")
    assert [key for key in criterion.model_fields if not re.search(rf"\b{key}\b", text)] == []


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_is_valid(text):
    example = YAML(typ="safe", pure=True).load(text)
    if "judge" in example:
        TypeAdapter(AnyCriterion).validate_python(example)
    else:
        Claim.model_validate({"id": "one", "claim": "It does.", "source": "a paper"} | example)
