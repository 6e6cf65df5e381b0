"""The page of claims: every claim of the list, each status from what is packed beside it."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tarfile
from dataclasses import replace

import pytest
from pages import DOCS
from planted import planted
from ruamel.yaml import YAML

from initbench.ledger import Ledger

SCRIPTS = ("claims_page", "pack_ledger")
CLAIM = "metainit-t1-plain28-deltaorth-fails"


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(DOCS / "scripts"))
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    sys.path.remove(str(DOCS / "scripts"))
    for name in SCRIPTS:
        del sys.modules[name]


@pytest.fixture
def page(scripts, monkeypatch, tmp_path):
    """The script, with a folder of packed ledgers and findings of laws of its own."""
    script = scripts["claims_page"]
    monkeypatch.setattr(script, "LEDGERS", tmp_path / "papers")
    monkeypatch.setattr(script, "LAWS", tmp_path / "laws.json")
    return script


def write_suite(folder, outcomes, claim=CLAIM):
    ledger = Ledger(folder)
    records = planted(outcomes)
    for record in records:
        ledger.write(replace(record, history=[{"step": 1, "epoch": 0.5}, {"step": 2, "epoch": 1.0}]))
    criterion = {"judge": "at_chance", "of": {"initializer": "delta_orthogonal"}}
    claims = [{"id": claim, "claim": "It fails.", "source": "a paper", "criteria": [criterion]}]
    resolved = {"schema": 2, "name": "made-up", "compare": ["initializer"], "claims": claims, "seeds": 3}
    ledger.write_suite("name: made-up\n", resolved)
    return records


def test_every_claim_of_the_list_stands_on_the_page_once(page):
    ids = re.findall(r"^- id: (\S+)$", page.LIST.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(ids) == 110
    rows = re.findall(r"^\| .* `([a-z0-9-]+)` \|", page.page(page.entries()), flags=re.MULTILINE)
    assert sorted(rows) == sorted(ids)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "status"), [([0.9, 0.9, 0.9], "held"), ([0.9, 0.9, 0.2], "did not hold"), ([0.9, 0.9], "undecided")]
)
def test_a_packed_ledger_judges_its_claims(page, scripts, tmp_path, values, status):
    write_suite(tmp_path / "run", {"digits": {"delta_orthogonal": values}})
    scripts["pack_ledger"].pack(tmp_path / "run", page.LEDGERS / "metainit_table1.tar.xz")
    entry = page.entries()[CLAIM]
    assert entry.status == status
    assert entry.how == "`initbench run suites/papers/twins/metainit_table1.yaml`"
    assert f"{len(values)} of {len(values)} seeds" in entry.measured or status == "did not hold"
    assert f"1 {status}" in page.page(page.entries())


def test_a_packed_ledger_has_every_trial_and_its_epochs(scripts, tmp_path):
    records = write_suite(tmp_path / "run", {"digits": {"delta_orthogonal": [0.1, 0.2, 0.3]}})
    first, again = (tmp_path / f"{name}.tar.xz" for name in ("first", "again"))
    for archive in (first, again):
        scripts["pack_ledger"].pack(tmp_path / "run", archive)
    assert first.read_bytes() == again.read_bytes()
    scripts["pack_ledger"].unpack(first, tmp_path / "unpacked")
    unpacked = {record.id: record for record in Ledger(tmp_path / "unpacked").records()}
    assert unpacked.keys() == {record.id for record in records}
    for record in records:
        assert unpacked[record.id].metrics == record.metrics
        assert unpacked[record.id].history == [{"step": 2, "epoch": 1.0}]


def test_an_archive_writes_nothing_beside_its_folder(scripts, tmp_path):
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz") as archive:
        archive.addfile(tarfile.TarInfo("../outside.json"))
    with pytest.raises(ValueError, match=r"\.\./outside\.json is no file of a ledger"):
        scripts["pack_ledger"].unpack(tmp_path / "other.tar.xz", tmp_path / "folder")
    assert not (tmp_path / "outside.json").exists()


def test_findings_of_laws_stand_as_they_were_found(page):
    law = {"status": "did_not_hold", "measured": "0.5 of 1.", "interval": [0.25, 0.75], "n": 7, "note": ""}
    page.LAWS.write_text(json.dumps({"laws": {"metainit-gq-linear-loss-zero": law}}), encoding="utf-8")
    entry = page.entries()["metainit-gq-linear-loss-zero"]
    assert (entry.status, entry.measured) == ("did not hold", "0.5 of 1 (0.25 to 0.75); n = 7")
    assert entry.chance == 0.0


@pytest.fixture(scope="module")
def entries(scripts):
    """What became of each claim by all that is packed, which takes seconds."""
    return scripts["claims_page"].entries()


def test_what_did_not_hold_or_is_undecided_says_why_and_nothing_that_was_not_tested_does(scripts, entries):
    script = scripts["claims_page"]
    statuses = {name: entry.status for name, entry in entries.items()}
    why = YAML(typ="safe", pure=True).load(script.WHY.read_text(encoding="utf-8"))
    assert {name for name, status in statuses.items() if status in ("did not hold", "undecided")} <= set(why)
    assert {statuses[name] for name in why} <= set(script.TESTED)


def test_the_page_is_as_the_results_are(scripts, entries):
    script = scripts["claims_page"]
    assert script.PAGE.read_text(encoding="utf-8") == script.page(entries), "python docs/scripts/claims_page.py --write"
