"""The comparison of reports: that it sees every change, wherever in a report, and from whatever in the trials."""

import csv
import io
import json
import math
import shutil
import tarfile
from collections import Counter

import pytest

from bitwise import compare_reports
from bitwise.compare import ROOT
from bitwise.compare_reports import _copied, _failed, _files, _job, _ledgers
from bitwise.report_ledgers import CHANCE, made_up
from bitwise.report_suites import RAN
from bitwise.reports_compared import compare_reports as compared
from bitwise.versions import Version

TABLE = [
    ["workload", "treatment", "rank", "outcome_median", "note"],
    ["wrn[depth=10]", "kaiming", "1", "0.8", "first"],
    ["wrn[depth=10]", "xavier[gain=2]", "2", "0.9", ""],
]
REPORT = {
    "sentences": [{"text": "kaiming is best.", "subject": ""}],
    "analyses": [{"question": "Which is best?", "tables": [{"name": "comparison", "records": [{"rank": 0.1}]}]}],
}
FRAME = {"columns": ["trial_id", "outcome"], "dtypes": ["object", "float64"], "index": ["0"], "rows": [["'a'", "0.8"]]}
FIGURE = '<svg role="img"><title>Ranks</title><svg x="1" width="10" height="10">{}</svg></svg>\n'


def written(folder, *, table=TABLE, report=REPORT, frame=FRAME, value=0.8, page="Ranks of two.\nkaiming is best.\n"):
    """A report in a folder."""
    for name in ("figures", "frames"):
        (folder / name).mkdir(parents=True)
    with (folder / "comparison.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
    (folder / "costs.csv").write_text("workload,treatment\n", encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    (folder / "frames" / "frame.json").write_text(json.dumps(frame), encoding="utf-8")
    drawing = json.dumps({"datasets": {"marks": [{"value": value}]}, "title": "ranks &amp; more"})
    (folder / "figures" / "ranks.svg").write_text(FIGURE.format(drawing), encoding="utf-8")
    (folder / "report.md").write_text(page, encoding="utf-8")
    return folder


def changed(data, *path, to):
    """Nested data with another value at a path."""
    if not path:
        return to
    first, *rest = path
    if isinstance(data, dict):
        return {key: changed(value, *rest, to=to) if key == first else value for key, value in data.items()}
    return [changed(value, *rest, to=to) if index == first else value for index, value in enumerate(data)]


BIT = math.nextafter(0.8, 1)
PLANTED = {
    "a renamed column": ({"table": changed(TABLE, 0, 2, to="ranks")}, "comparison.csv: columns: "),
    "two columns swapped": (
        {"table": [[*row[:2], row[3], row[2], row[4]] for row in TABLE]},
        "comparison.csv: columns",
    ),
    "two rows swapped": ({"table": [TABLE[0], TABLE[2], TABLE[1]]}, "comparison.csv: rows: "),
    "a row that is missing": ({"table": TABLE[:2]}, "comparison.csv: rows: "),
    "a row that is new": ({"table": [*TABLE, ["w", "b", "3", "1.0", ""]]}, "comparison.csv: rows: "),
    "a row that is repeated": ({"table": [*TABLE, TABLE[2]]}, "comparison.csv: rows: "),
    "one character of a label": ({"table": changed(TABLE, 2, 1, to="xavier[gain=3]")}, "comparison.csv: rows: "),
    "one character of a text": ({"table": changed(TABLE, 1, 4, to="First")}, "first → First"),
    "the last bit of a number": ({"table": changed(TABLE, 1, 3, to=repr(BIT))}, "outcome_median: 0.8 → 0.80000000"),
    "a whole number as a float": ({"table": changed(TABLE, 1, 2, to="1.0")}, "rank: 1 → 1.0"),
    "the last bit in JSON": (
        {"report": changed(REPORT, "analyses", 0, "tables", 0, "records", 0, "rank", to=math.nextafter(0.1, 1))},
        "report.json: analyses 0 tables 0 records 0 rank: ",
    ),
    "a table that JSON lacks": ({"report": changed(REPORT, "analyses", 0, "tables", to=[])}, "report.json: analyses"),
    "the order of keys": ({"report": dict(reversed(REPORT.items()))}, "report.json: other bytes"),
    "a type of a frame": ({"frame": changed(FRAME, "dtypes", 1, to="object")}, "frame.json: dtypes 1: "),
    "a column of a frame": ({"frame": changed(FRAME, "columns", 1, to="result")}, "frame.json: columns 1: "),
    "the last bit in a figure": ({"value": BIT}, "ranks.svg: datasets marks 0 value: "),
}


@pytest.mark.parametrize(("change", "line"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_a_difference(tmp_path, change, line):
    found = compared(written(tmp_path / "old"), written(tmp_path / "new", **change), strict=True)
    assert any(line in different for different in found.different), found
    assert not found.words
    assert not found.new


@pytest.mark.parametrize("name", ["comparison.csv", "costs.csv", "report.json", "figures/ranks.svg"])
def test_a_file_of_one_report_alone_is_a_difference(tmp_path, name):
    whole, lacking = written(tmp_path / "whole"), written(tmp_path / "lacking")
    (lacking / name).unlink()
    assert compared(whole, lacking, strict=True).different == [f"{name}: the file is missing"]
    assert compared(lacking, whole, strict=True).different == [f"{name}: the file is new"]


def test_equal_reports_are_equal_and_their_values_are_counted(tmp_path):
    found = compared(written(tmp_path / "old"), written(tmp_path / "new"), strict=True)
    assert (found.different, found.words, found.new) == ([], [], [])
    assert found.files == {".csv": 2, ".json": 2, ".svg": 1, ".md": 1}
    assert found.values == 17


def test_sentences_are_words_and_no_difference(tmp_path):
    other = changed(REPORT, "sentences", 0, "text", to="kaiming wins.")
    other = changed(other, "analyses", 0, "question", to="Which one?")
    new = written(tmp_path / "new", report=other, page="Ranks of two.\nIt is best.\n")
    found = compared(written(tmp_path / "old"), new, strict=True)
    assert found.different == []
    assert [line.partition(":")[0] for line in found.words] == ["report.json"] * 2 + ["report.md"] * 2


def test_without_strict_what_stood_in_a_table_must_stand_there_in_any_order(tmp_path):
    table = [[*row, "more"] for row in (TABLE[0], TABLE[2], TABLE[1], ["w", "b", "3", "1.0", ""])]
    old, new = written(tmp_path / "old"), written(tmp_path / "new", table=table, report={}, value=1)
    found = compared(old, new, strict=False)
    assert found.different == []
    assert len(found.new) == 8  # a column of two rows, and a row of six columns
    assert len(compared(new, old, strict=False).different) == 8
    (new / "costs.csv").unlink()
    assert compared(old, new, strict=False).different == ["costs.csv: the file is missing"]
    assert compared(new, old, strict=False).new == ["costs.csv: the file is new"]


def packed(files, archive):
    with tarfile.open(archive, "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


@pytest.mark.parametrize("around", ["", "quickstart/"])
def test_a_packed_ledger_is_the_folder_that_was_packed(tmp_path, around):
    files = {"suite.yaml": b"name: s", "resolved.json": b"{}", "trials/a.json": b"1", "trials/b.json": b"2"}
    others = {
        "mlflow.db": b"",
        "mlartifacts/1/trial.json": b"",
        "report/results.csv": b"",
        "trials/a.json.damaged": b"",
    }
    archive = packed({around + name: content for name, content in (files | others).items()}, tmp_path / "s.tar.xz")
    assert _files(archive) == files
    assert _files(_copied(files, tmp_path / "s")) == files


def test_a_request_that_cannot_be_met_is_one_line(capsys, tmp_path):
    (tmp_path / "torn.tar.xz").write_bytes(b"torn")
    empty = packed({"suite.yaml": b""}, tmp_path / "empty.tar.xz")
    for arguments in (
        ["no-such-commit", "--only", "one workload"],
        ["HEAD", "--only", "no such set"],
        ["HEAD", "--words"],
        *(["HEAD", str(ledger)] for ledger in (tmp_path / "torn.tar.xz", empty, tmp_path, tmp_path / "absent")),
    ):
        assert compare_reports.main(arguments) == 2, arguments
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 7
    assert all(line.startswith("compare_reports.py: ") for line in lines)


def test_made_up_trials_have_what_statistics_depend_on():
    every = {name: make() for name, make in made_up().items()}
    assert len(every) >= 10
    states = Counter(record.status for records in every.values() for record in records)
    assert states.keys() == {"finished", "diverged", "failed"}
    known = [record for records in every.values() for record in records if record.status != "failed"]
    assert all(record.task["metrics"]["test_error"]["chance"] == CHANCE for record in known)
    assert all(record.initialization["cost"] is not None for record in known)


@pytest.mark.slow
def test_this_tree_says_what_its_commit_says(capsys):
    assert compare_reports.main(["HEAD", "--strict", "--only", "several factors"]) == 0
    assert "values in tables: none differ" in capsys.readouterr().out


def records_with(change, **spec):
    """What changes the records of a ledger whose specs have these values."""

    def alter(ledger):
        found = 0
        for path in ledger.glob("trials/*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            asked = record["spec"] | {"status": record["status"]}
            if all(asked[name] == value for name, value in spec.items()):
                change(record)
                path.write_text(json.dumps(record), encoding="utf-8")
                found += 1
        assert found

    return alter


def resolved(change):
    """What changes resolved.json."""

    def alter(ledger):
        content = json.loads((ledger / "resolved.json").read_text(encoding="utf-8"))
        change(content)
        (ledger / "resolved.json").write_text(json.dumps(content), encoding="utf-8")

    return alter


def outcome(record):
    """Move the outcome by its last bit."""
    key = record["task"]["primary"]
    record["metrics"][key] = math.nextafter(record["metrics"][key], 2)


FAULTS = [
    ("several factors", resolved(lambda r: r["compare"].pop()), "comparison.csv"),
    ("several factors", resolved(lambda r: r["incompatible"][0].update(reason="another")), "frames/refused.json"),
    ("several factors", records_with(lambda r: r["error"].update(message="another"), status="failed"), "report.json"),
    ("several factors", records_with(lambda r: r["metrics"].update(steps=9), status="diverged"), "results.csv"),
    ("several factors", records_with(lambda r: r["spec"].update(set_by_rules=[]), set_by_rules=["recipe.clip_norm"]),
     "comparison.csv"),
    ("architectures compared", records_with(outcome), "comparison.csv"),
    ("own searches", records_with(outcome, phase="search"), "searched.csv"),
    ("own searches", resolved(lambda r: r["tune"].update(search="once")), "report.json"),
    ("half a search", records_with(outcome, phase="search", seed=1), "results.csv"),
    ("random searches", records_with(outcome, phase="search"), "searched.csv"),
    ("claims and published numbers", resolved(lambda r: r["claims"][0]["criteria"][1].update(by=0.9)), "claims.csv"),
    ("claims and published numbers", resolved(lambda r: r["published"]["numbers"][0].update(value=0.8)),
     "published.csv"),
    ("two suites", records_with(outcome, suite="second"), "comparison.csv"),
    ("from MLflow", records_with(outcome), "mlflow.json"),
]  # fmt: skip


@pytest.mark.slow
def test_each_suite_has_a_report_that_depends_on_its_trials(tmp_path):
    """One test, because the reports of all suites and of all faults are made together: it takes minutes."""
    version = Version(ROOT)
    ledgers = _ledgers(version, dict(RAN), tmp_path)
    jobs = [_job(name, ledgers[name], source, strict=True) for name, source in RAN.items()]
    for number, (name, alter, _) in enumerate(FAULTS):
        copies = [tmp_path / f"with {number}" / ledger.name for ledger in ledgers[name]]
        for ledger, copy in zip(ledgers[name], copies, strict=True):
            shutil.copytree(ledger, copy)
        alter(copies[-1])
        jobs.append(_job(str(number), copies, RAN[name], strict=True))
    reports = tmp_path / "reports"
    failed = _failed(version, [job | {"output": str(reports / job["name"])} for job in jobs])
    assert not any(failed.values()), failed
    unseen = []
    for number, (name, _, file) in enumerate(FAULTS):
        seen = compared(reports / name, reports / str(number), strict=True)
        lines = seen.different + seen.words
        if not any(line.startswith(f"{file}: ") for line in lines):
            unseen.append((number, name, file, lines[:20]))
    assert not unseen
