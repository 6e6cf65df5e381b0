"""Claims that are laws: each is found as docs/results/laws.json has it, which the page of claims shows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from law import all_laws, judged
from measure_laws import stored

FOUND = json.loads((Path(__file__).parents[2] / "docs" / "results" / "laws.json").read_text(encoding="utf-8"))["laws"]
LAWS = all_laws()
MEASURED = [name for name, law in sorted(LAWS.items()) if not law.by_command]


def cases(names: list[str]) -> list:
    """Return parameters of a test, with the mark of the slow ones."""
    return [pytest.param(name, marks=[pytest.mark.slow] if LAWS[name].slow else []) for name in names]


# Some laws are about vanished gradients.
SATURATED = pytest.mark.filterwarnings("ignore:the gradient quotient is saturated")


@SATURATED
@pytest.mark.filterwarnings("ignore:metainit stopped at step")
@pytest.mark.parametrize("name", cases(MEASURED))
@pytest.mark.filterwarnings("ignore:metainit. the gradient quotient rose")  # at the rate that some laws are about
def test_a_law_is_found_as_recorded(name):
    finding = LAWS[name].measure()
    assert finding.status == FOUND[name]["status"], finding
    assert (finding.n, finding.of, finding.part) == tuple(FOUND[name][key] for key in ("n", "of", "part"))
    assert set(finding.values) == set(FOUND[name]["values"])


@SATURATED
@pytest.mark.parametrize("name", cases([name for name in MEASURED if LAWS[name].confirmation]))
def test_a_confirmation_is_found_as_recorded(name):
    finding = LAWS[name].confirm()
    assert finding.status == FOUND[name]["confirmation"]["status"], finding
    assert set(finding.values) == set(FOUND[name]["confirmation"]["values"])


def test_the_file_of_findings_has_every_law_and_confirmation():
    assert set(FOUND) == set(LAWS)
    for name, law in LAWS.items():
        assert FOUND[name]["evidence"] == law.evidence
        assert FOUND[name].get("confirmation", {}).get("network") == (law.confirmation and law.confirmation.network)


def test_values_are_stored_to_some_digits_and_what_json_cannot_hold_as_text():
    values = {"a": [1.23456789, math.inf, [math.nan, 7, None]], "b": [True, "x"]}
    assert stored(values, 6) == {"a": [1.23457, "inf", ["nan", 7, None]], "b": [True, "x"]}


def test_a_claim_is_not_held_and_not_held_at_once():
    assert judged(held=False, not_held=False) == "undecided"
    with pytest.raises(ValueError, match="at once"):
        judged(held=True, not_held=True)
