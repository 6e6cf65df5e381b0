"""Claims that are laws: each is found as docs/results/laws.json has it, which the page of claims shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from law import all_laws, judged

FOUND = json.loads((Path(__file__).parents[2] / "docs" / "results" / "laws.json").read_text(encoding="utf-8"))["laws"]
LAWS = all_laws()
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if law.slow else [])
    for name, law in sorted(LAWS.items())
    if not law.by_command
]


@pytest.mark.filterwarnings("ignore:metainit stopped at step")
@pytest.mark.parametrize("name", CASES)
def test_a_law_is_found_as_recorded(name):
    finding = LAWS[name].measure()
    assert finding.status == FOUND[name]["status"], finding


def test_the_file_of_findings_has_every_law():
    assert set(FOUND) == set(LAWS)


def test_a_claim_is_not_held_and_not_held_at_once():
    assert judged(held=False, not_held=False) == "undecided"
    with pytest.raises(ValueError, match="at once"):
        judged(held=True, not_held=True)
