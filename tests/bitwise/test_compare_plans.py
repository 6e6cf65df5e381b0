"""The comparison of plans: that it sees a change of one trial, and tells where."""

import json

import pytest

from bitwise import compare_plans
from bitwise.compare import ROOT
from bitwise.compare_plans import _differences, suites_of
from bitwise.test_compare import changed_copy
from bitwise.versions import Version

ROWS = [
    {"status": "run", "id": "1", "spec": {"recipe": {"lr": 0.1}}, "places": [["kaiming", "wrn"]]},
    {"status": "waiting", "reason": "no files", "spec": {"recipe": {"lr": 0.2}}},
    {"status": "printed", "excluded": 2},
]


def lines(*rows):
    return [json.dumps(row) for row in rows]


OLD = lines(*ROWS)


def test_equal_rows_do_not_differ():
    assert list(_differences(OLD, list(OLD))) == []


@pytest.mark.parametrize(
    ("new", "first"),
    [
        (lines(ROWS[0] | {"id": "2"}, *ROWS[1:]), ', row 1: id: "1" → "2"'),
        (lines(ROWS[0] | {"spec": {"recipe": {"lr": 0.1 + 2**-56}}}, *ROWS[1:]), ", row 1: spec/recipe/lr: 0x1.9999"),
        (lines(ROWS[0] | {"places": [["kaiming", "wrn "]]}, *ROWS[1:]), ', row 1: places/0/1: "wrn" → "wrn "'),
        (lines(ROWS[0], ROWS[1] | {"reason": "no file"}, ROWS[2]), ', row 2: reason: "no files" → "no file"'),
        (lines(ROWS[1], ROWS[0], ROWS[2]), ', row 1: status: "run" → "waiting"'),
        (lines(*ROWS[:2]), ', row 3: status: "printed" → nothing'),
        (lines(*ROWS, {"status": "run"}), ', row 4: status: nothing → "run"'),
        (lines(dict(reversed(ROWS[0].items())), *ROWS[1:]), ", row 1: other text for the same values"),
        (None, ": only the older version has this case"),
    ],
)
def test_a_planted_difference_is_told_with_its_row(new, first):
    found = list(_differences(OLD, new))
    assert found[0].startswith(first), found


def test_a_request_that_cannot_be_met_is_one_line(capsys):
    assert compare_plans.main(["no-such-commit"]) == 2
    assert compare_plans.main(["HEAD", "--only", "no such suite"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("compare_plans.py: ") for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "old", "new", "path"),
    [
        (".", "A request that cannot be met", "Any request that cannot be met", None),
        ("training", "RECIPE_VERSION = 1", "RECIPE_VERSION = 2", "identity/recipe/version"),
        (".", "{label} + {scheme}", "{label} with {scheme}", "architecture"),
        (".", "must be none for scheme {", "must be none with scheme {", "reason"),
    ],
    ids=["nothing", "identity", "label", "reason"],
)
def test_a_change_on_purpose_is_seen(tmp_path, part, old, new, path):
    changed = Version(changed_copy(tmp_path, part, old, new))
    found = compare_plans.compare_plans(Version(ROOT), changed, suites_of(ROOT / "suites", "digits_initializers"))
    assert found.cases >= 4
    assert found.rows > 300
    assert any(f"{path}: " in line for line in found.different) == (path is not None)
    assert bool(found.different) == (path is not None), found.different[:5]
