"""Every law is found as it was recorded, by the criterion of its claim, so that a wrong implementation is found out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from expected import EXPECTED, NOT_YET_MEASURED
from law import all_laws, judged

LAWS = {name: law for name, law in all_laws().items() if name not in NOT_YET_MEASURED}
FILE = Path(__file__).parents[2] / "docs" / "results" / "laws.json"
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if law.slow else [])
    for name, law in sorted(LAWS.items())
    if not law.by_command
]


@pytest.mark.filterwarnings("ignore:metainit stopped at step")
@pytest.mark.parametrize("name", CASES)
def test_a_law_is_found_as_recorded(name):
    finding = LAWS[name].measure()
    assert finding.status == EXPECTED[name].status, finding


def test_every_law_has_a_recorded_finding_and_every_other_one_than_held_a_reason():
    assert set(EXPECTED) == set(LAWS)
    assert set(all_laws()) >= NOT_YET_MEASURED
    for name, expected in EXPECTED.items():
        assert (expected.status == "held") == (not expected.why), name


def test_the_file_of_findings_has_every_law_as_recorded():
    found = json.loads(FILE.read_text(encoding="utf-8"))["laws"]
    assert {name: finding["status"] for name, finding in found.items()} == {
        name: expected.status for name, expected in EXPECTED.items()
    }


def test_a_claim_is_not_held_and_not_held_at_once():
    assert judged(held=False, not_held=False) == "undecided"
    with pytest.raises(ValueError, match="at once"):
        judged(held=True, not_held=True)
