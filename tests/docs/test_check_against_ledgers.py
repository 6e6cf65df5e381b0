"""The script that compares verdicts with packed ledgers: cells are those of the trials, and counts are right."""

import importlib.util

import pytest
from pages import DOCS

SPEC = importlib.util.spec_from_file_location("check_against_ledgers", DOCS / "scripts/check_against_ledgers.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


@pytest.fixture(scope="module")
def quickstart():
    return list(script.cells_of(DOCS / "results/quickstart.tar.xz"))


def test_cells_are_those_of_the_report(quickstart):
    labels = {
        (spec.architecture.name, spec.initializer.name, spec.initializer.arguments.get("gain")): trained
        for spec, trained in quickstart
    }
    assert len(quickstart) == len(labels) == 8
    assert {spec.seed for spec, _ in quickstart} == {0}
    assert not labels["plain", "delta_orthogonal", 1.0]
    assert labels["plain", "metainit", None]


def test_the_start_of_a_trial_is_judged(quickstart):
    [vanishing] = [spec for spec, _ in quickstart if _key(spec) == ("plain", "delta_orthogonal", 1.0)]
    assert script.judged(vanishing).kind == "vanishing"
    assert script.family(vanishing) == "plain"


def _key(spec):
    return spec.architecture.name, spec.initializer.name, spec.initializer.arguments.get("gain")


def test_ledgers_are_those_of_the_thresholds_and_later_ones():
    earlier, later = script.ledgers(), script.ledgers(later=True)
    assert len(earlier) == len(script.HALVED)
    assert {path.name for path in later} >= {"gpt_defaults.tar.xz", "weightnorm_widths.tar.xz"}
    assert not set(earlier) & set(later)


def test_counts_are_by_family_and_verdict():
    found = [("plain", "healthy", True)] * 3 + [("plain", "healthy", False), ("BatchNorm", "exploding", False)]
    assert script.table(found).splitlines()[2:] == ["| plain | healthy | 3 | 1 |", "| BatchNorm | exploding | 0 | 1 |"]
    # Wilson's interval of 3 of 4 and of 0 of 1 at z = 1.96.
    assert script.sentence(found) == (
        "Of the cells judged healthy, 3 of 4 (95 % interval 30% to 95%) trained, "
        "of all others 0 of 1 (95 % interval 0% to 79%)."
    )
