"""`initbench report DIR --format ...`: the same report as a page, as text for elsewhere, and as data."""

from __future__ import annotations

import json
import sys

import pytest
from ledgers import DELTA_1, KAIMING, make_record, make_spec, write_ledger

from initbench.cli.command_line import main
from initbench.reporting.page.markdown import MARK
from initbench.reporting.questions.overview import overview
from initbench.reporting.results import read_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite's folder: two initializers of three seeds each."""
    folder = tmp_path_factory.mktemp("formats") / "made-up"
    records = [
        make_record(make_spec(initializer, seed=seed), 0.1 * place + 0.01 * seed**2)
        for place, initializer in enumerate((KAIMING, DELTA_1), start=1)
        for seed in range(3)
    ]
    write_ledger(folder, records)
    return folder


@pytest.fixture
def report(monkeypatch, capsys):
    """Run `initbench report` with arguments; return its exit code and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["initbench", "report", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def sentences(folder):
    return [str(sentence) for sentence in overview(read_results(folder)).sentences]


def test_the_terminal_says_the_first_sentences_of_the_page(folder, report, tmp_path):
    code, out, err = report(folder, "--out", tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [*sentences(folder), f"report: {tmp_path / 'index.html'}"]
    assert not (folder / "report").exists()


def test_json_on_the_command_line_says_what_was_written(folder, report, tmp_path):
    code, out, _ = report(folder, "--out", tmp_path, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["sentences"] == sentences(folder)
    assert told["files"] == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("form", ["md", "latex", "json"])
def test_without_a_file_the_text_is_printed_and_nothing_is_written(folder, report, form):
    before = sorted(folder.rglob("*"))
    code, out, err = report(folder, "--format", form)
    assert (code, err) == (0, "")
    assert sorted(folder.rglob("*")) == before
    if form == "json":
        assert [sentence["text"] for sentence in json.loads(out)["sentences"]] == sentences(folder)
    elif form == "md":
        assert out.startswith("# made-up\n")
        assert MARK not in out  # it is pasted into an issue
        assert "![" not in out  # where there are no images beside it
    else:
        assert out.count(r"\toprule") == out.count(r"\bottomrule") > 1
        assert "&" in out


@pytest.mark.parametrize(("form", "name"), [("latex", "tables.tex"), ("json", "deep/report.json")])
def test_a_file_has_what_is_printed_without_it(folder, report, tmp_path, form, name):
    _, printed, _ = report(folder, "--format", form)
    code, out, _ = report(folder, "--format", form, "--out", tmp_path / name)
    assert (code, out) == (0, f"report: {tmp_path / name}\n")
    assert (tmp_path / name).read_text(encoding="utf-8") == printed


def test_a_markdown_file_has_its_charts_beside_it_and_keeps_the_words_above_the_mark(folder, report, tmp_path):
    page = tmp_path / "docs" / "results" / "x.md"
    assert report(folder, "--format", "md", "--out", page)[0] == 0
    made = page.read_text(encoding="utf-8")
    assert "](x/" in made
    assert list((page.parent / "x").glob("*.svg"))
    page.write_text("# Mine\n\nWhat I think of it.\n\n" + MARK + "\nold", encoding="utf-8")
    assert report(folder, "--format", "md", "--out", page)[0] == 0
    assert page.read_text(encoding="utf-8") == "# Mine\n\nWhat I think of it.\n\n" + MARK + made.partition(MARK)[2]


def test_several_folders_are_printed_as_one_report(folder, report, tmp_path):
    write_ledger(tmp_path / "b", [make_record(make_spec(KAIMING, seed=7, suite="other"), 0.3)])
    code, out, _ = report(folder, tmp_path / "b", "--format", "json")
    assert code == 0
    assert json.loads(out)["title"] == "made-up, other"
    assert len(json.loads(out)["trials"]["rows"]) == 7


def test_a_record_that_cannot_be_read_is_named_beside_the_text(report, tmp_path):
    ledger = write_ledger(tmp_path / "a", [make_record(make_spec(KAIMING, seed=seed), 0.1) for seed in range(2)])
    broken = min(ledger.trials.iterdir())
    broken.write_text("{", encoding="utf-8")
    code, out, err = report(ledger.folder, "--format", "json")
    assert code == 1
    assert broken.name in " ".join(json.loads(out)["notices"])
    assert err.startswith(f"skipped a/trials/{broken.name}: not a trial record")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["DIR", "DIR"], "several ledgers make one report: give --out FOLDER"),
        (["DIR", "--format", "md", "--json"], "for the report itself as JSON give --format json"),
        (["DIR", "--format", "json", "--json"], "for the report itself as JSON give --format json"),
        (["DIR", "--format", "md", "--out", "TMP/page.txt"], "a Markdown file ends in .md"),
        (["DIR", "--format", "latex", "--out", "TMP"], "Is a directory"),
        (["TMP/none"], "none"),
        (["TMP/empty"], "no trial records"),
        (["TMP/empty", "--format", "json"], "no trial records"),
    ],
)
def test_bad_input_is_one_line(folder, report, tmp_path, arguments, message):
    (tmp_path / "empty" / "trials").mkdir(parents=True)
    given = [argument.replace("DIR", str(folder)).replace("TMP", str(tmp_path)) for argument in arguments]
    code, out, err = report(*given)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_format_that_there_is_not_names_those_that_there_are(folder, report):
    code, _, err = report(folder, "--format", "pdf")
    assert code == 2
    for form in ("html", "md", "latex", "json"):
        assert form in err
