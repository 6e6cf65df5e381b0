"""Claims are judged twice: do both ways agree, and would a difference show?"""

from __future__ import annotations

import copy
import importlib
import json
import math
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = ("recompute_claims", "recomputed_laws", "recomputed_ledgers", "recomputed_statistics", "recomputed_trials")


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    sys.path.remove(str(DOCS / "scripts"))
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture
def script(scripts):
    return scripts["recompute_claims"]


@pytest.fixture(scope="module")
def record():
    return json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))


def test_the_record_agrees_with_what_is_recomputed(script, capsys):
    code = script.main([])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert printed.startswith("all ")
    assert printed.count("\n") == 1


def test_a_verdict_that_was_changed_is_reported(script, record, tmp_path, capsys):
    changed = copy.deepcopy(record)
    claim = next(claim for claim in changed["claims"] if claim["verdict"] == "held" and not claim["implied_by"])
    claim["verdict"] = "undecided"
    path = tmp_path / "claims.json"
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert script.main(["--claims", str(path)]) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{claim['id']}: verdict is")


@pytest.fixture
def found(script):
    judgement = script.Judgement
    return [
        judgement("a", "suite", "held", "held"),
        judgement("a", "law", "held", "undecided", "did not hold"),
        judgement("b", "suite", "held", "indication"),
    ]


@pytest.fixture
def stated(found):
    """Return a record that agrees with `found`."""
    claims = {
        name: {"id": name, "judgements": [], "confirmation": None, "implied_by": None, "direction": None}
        for name in ("a", "b", "c")
    }
    for one in found:
        judgement = {"source": one.source, "status": one.status, "counts_as": one.counts_as}
        claims[one.claim]["judgements"].append(judgement)
    claims["a"] |= {"verdict": "held", "confirmation": {"status": "did not hold"}}
    claims["b"] |= {"verdict": "indication", "direction": "for"}
    claims["c"] |= {"verdict": "not run"}
    return {"claims": list(claims.values())}


def test_a_record_that_agrees_has_no_differences(script, found, stated):
    assert list(script.differences(stated, found)) == []


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (lambda claims: claims[0]["judgements"][0].update(status="undecided"), ("a", "status by suite")),
        (lambda claims: claims[0]["judgements"][1].update(counts_as="held"), ("a", "counts_as by law")),
        (lambda claims: claims[0]["judgements"].pop(), ("a", "judgement by law")),
        (lambda claims: claims[0].update(confirmation=None), ("a", "confirmation")),
        (lambda claims: claims[1].update(direction="against"), ("b", "verdict")),
        (lambda claims: claims[2].update(verdict="held"), ("c", "verdict")),
        (lambda claims: claims[2]["judgements"].append({"source": "law", "status": "held"}), ("c", "judgement by law")),
    ],
)
def test_each_kind_of_difference_is_reported(script, found, stated, fault, reported):
    fault(stated["claims"])
    assert [row[:2] for row in script.differences(stated, found)] == [reported]


@pytest.mark.parametrize(
    ("conditions", "counts_as"),
    [
        ("as listed", ["held", "did not hold", "undecided"]),
        ("harder", ["held", "undecided", "undecided"]),
        ("easier", ["undecided", "did not hold", "undecided"]),
        ("short", ["indication"] * 3),
    ],
)
def test_conditions_decide_what_a_status_counts_as(script, conditions, counts_as):
    assert [script.counted(status, conditions) for status in ("held", "did not hold", "undecided")] == counts_as


def test_a_run_whose_start_float64_holds_says_nothing(script):
    runs = {"sound": 0, "overflowed": 0, "not finite": 0, "later": 3, "unknown": 0, "finished": None}
    trials = [{"id": name, "diverged_at": step, "error": math.inf, "validation": 1.0} for name, step in runs.items()]
    starts = {
        "sound": {"loss_float64": 2.5, "gradient_norm_float64": 1e30},
        "overflowed": {"loss_float64": 2.5, "gradient_norm_float64": 1e39},
        "not finite": {"loss_float64": None, "gradient_norm_float64": None},
        "later": {"loss_float64": 2.5, "gradient_norm_float64": 1.0},
    }
    faults: list[str] = []
    errors = {trial["id"]: trial["error"] for trial in script.doubted(trials, starts, faults)}
    assert {name for name, error in errors.items() if math.isnan(error)} == {"sound", "unknown"}
    assert len(faults) == 1
    assert faults[0].startswith("1 trial")


def test_statistics_of_a_known_sample(scripts):
    statistics = scripts["recomputed_statistics"]
    low, high = statistics.interval([1.0, 2.0, 3.0])
    assert low == pytest.approx(2 - 4.302653 / 3**0.5, abs=1e-6)
    assert high == pytest.approx(2 + 4.302653 / 3**0.5, abs=1e-6)
    assert statistics.interval([1.0, 2.0, math.inf]) == (-math.inf, math.inf)
    assert statistics.every([True, True, False, True, True], 0.8)
    assert not statistics.every([True, True, False, True, False], 0.8)
    assert not statistics.every([True, True])
    assert statistics.departure([1.0, 2.0, 3.0], 0.0) == pytest.approx(2 * 3**0.5)
