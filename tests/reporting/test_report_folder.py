"""A report in a folder with files of other origin, links, pipes, and what an earlier report left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ledgers import DELTA_1, KAIMING, make_record, make_spec, quickstart_records, write_ledger

from initbench.cli.command_line import main
from initbench.errors import InitbenchError
from initbench.reporting.manifest import MANIFEST, MARKER, written_files
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results
from initbench.reporting.text_report import write_markdown, write_text

REPOSITORY = Path(__file__).parents[2]
_MOST_SECONDS = 20


@pytest.fixture
def suite(tmp_path):
    """A suite's folder: two initializers of two seeds each."""
    records = [
        make_record(make_spec(initializer, seed=seed), 0.1 * place)
        for place, initializer in enumerate((KAIMING, DELTA_1), start=1)
        for seed in range(2)
    ]
    return write_ledger(tmp_path / "runs" / "small", records).folder


@pytest.fixture
def _limited():
    """A pipe that is opened waits for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it hangs"))
    signal.alarm(_MOST_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def foreign(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine", encoding="utf-8")


def test_files_of_other_names_are_kept(suite, tmp_path):
    names = ["claims.csv", "layers.csv", "notes.txt", "figures/mine.svg", ".hidden", "sub/index.html"]
    foreign(tmp_path / "docs", *names)
    write_report(suite, tmp_path / "docs")
    write_report(suite, tmp_path / "docs")
    for name in names:
        assert (tmp_path / "docs" / name).read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["index.html", "results.csv", "figures/differences.svg", MANIFEST])
def test_a_file_of_other_origin_is_not_replaced_and_nothing_is_written(tmp_path, name):
    ledger = write_ledger(tmp_path / "runs" / "small", quickstart_records())
    docs = tmp_path / "docs"
    foreign(docs, name)
    before = contents(docs)
    with pytest.raises(
        InitbenchError, match=rf"^{docs / name}: was not made by initbench report; give another folder$"
    ):
        write_report(ledger.folder, docs)
    assert contents(docs) == before


def test_the_command_line_refuses_it_in_one_line(suite, tmp_path, monkeypatch, capsys):
    foreign(tmp_path / "docs", "results.csv")
    monkeypatch.setattr(sys, "argv", ["initbench", "report", str(suite), "--out", str(tmp_path / "docs")])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert contents(tmp_path / "docs") == {"results.csv": b"mine"}


def test_a_table_that_was_added_to_a_report_by_hand_is_not_replaced_by_one_that_comes_later(suite, tmp_path):
    out = tmp_path / "out"
    names = {path.name for path in write_report(suite, out).files}
    more = write_ledger(tmp_path / "runs" / "more", quickstart_records()).folder
    [name, *_] = sorted({path.name for path in write_report(more).files if path.suffix == ".csv"} - names)
    foreign(out, name)
    before = contents(out)
    with pytest.raises(InitbenchError, match=f"{name}: was not made by initbench report"):
        write_report(more, out)
    assert contents(out) == before


def test_the_files_of_an_earlier_report_are_removed_and_no_others(suite, tmp_path):
    out = tmp_path / "out"
    more = write_ledger(tmp_path / "runs" / "more", quickstart_records()).folder
    write_report(more, out)
    foreign(out, "notes.csv", "figures/mine.svg")
    write_report(suite, out)
    write_report(suite, tmp_path / "fresh")
    assert contents(out) == {**contents(tmp_path / "fresh"), "notes.csv": b"mine", "figures/mine.svg": b"mine"}


def test_a_report_that_was_killed_is_written_again(suite, tmp_path):
    code = (
        "import os, signal, sys\n"
        "from initbench.reporting import report\n"
        "own = report.write_csv\n"
        "def killed(frame, file):\n"
        "    own(frame, file)\n"
        "    if os.path.exists(os.path.join(sys.argv[2], 'results.csv')):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "report.write_csv = killed\n"
        "report.write_report(sys.argv[1], sys.argv[2])"
    )
    out = tmp_path / "out"
    done = subprocess.run([sys.executable, "-c", code, suite, out], check=False, cwd=REPOSITORY)
    assert done.returncode == -signal.SIGKILL
    assert (out / "results.csv").exists()
    assert not (out / "index.html").exists()
    write_report(suite, out)
    write_report(suite, tmp_path / "fresh")
    assert {name for name in contents(out) if not name.endswith(".part")} == set(contents(tmp_path / "fresh"))


@pytest.mark.parametrize("version", ["without a manifest", "of a suite"])
def test_a_report_of_an_earlier_version_is_replaced(suite, tmp_path, version):
    out = suite / "report" if version == "of a suite" else tmp_path / "out"
    write_report(suite, out)
    whole = contents(out)
    (out / MANIFEST).unlink()
    stale = (out / "figures" / "quotient-plain-depth=28-width=1.svg").rename(out / "figures" / "gone.svg")
    if version == "of a suite":
        (out / "index.html").write_text("cut off", encoding="utf-8")
    write_report(suite, out)
    assert contents(out) == whole
    assert not stale.exists()


def test_a_manifest_from_anywhere_reaches_no_file_outside_the_folder(suite, tmp_path):
    out, home = tmp_path / "out", tmp_path / "home"
    write_report(suite, out)
    foreign(home, "id.csv", "index.html", "figures/x.svg", "thesis.tex")
    foreign(out, "thesis.tex", "sub/deep.csv")
    (out / "link.csv").symlink_to(home / "id.csv")
    os.mkfifo(out / "pipe.csv")
    (out / "folder.csv").mkdir()
    names = [
        *("../home/id.csv", f"{home}/id.csv", "figures/../../home/id.csv", "link.csv", "thesis.tex", "sub/deep.csv"),
        *("pipe.csv", "folder.csv", "..", "", "a\0.csv", "\ud800.csv", "../home/figures/x.svg", 7, None, ["x"]),
    ]
    manifest = out / MANIFEST
    own = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(json.dumps(own | {"files": own["files"] + names}), encoding="utf-8")
    before = contents(home)
    assert {path.name for path in written_files(out)} == {Path(name).name for name in own["files"]}
    write_report(suite, out)
    assert contents(home) == before
    for name in ("thesis.tex", "sub/deep.csv", "link.csv", "pipe.csv", "folder.csv"):
        assert os.path.lexists(out / name), name


@pytest.mark.parametrize("text", ["", "[]", "{", "7", '{"made_by": "initbench report", "files": 7}', "[" * 100_000])
def test_a_damaged_manifest_is_none(suite, tmp_path, text):
    write_report(suite)
    (suite / "report" / MANIFEST).write_text(text, encoding="utf-8")
    assert written_files(suite / "report") == []
    write_report(suite)
    foreign(tmp_path / "docs", "results.csv")
    (tmp_path / "docs" / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(InitbenchError, match="was not made by initbench report"):
        write_report(suite, tmp_path / "docs")


def test_the_files_of_a_report_that_wrote_no_manifest_are_known_by_its_page(suite):
    written = write_report(suite)
    (suite / "report" / MANIFEST).unlink()
    (suite / "report" / "notes.txt").write_text("mine", encoding="utf-8")
    (suite / "report" / "linked.csv").symlink_to(suite / "suite.yaml")
    assert {*written_files(suite / "report"), suite / "report" / MANIFEST} == set(written.files)
    (suite / "report" / "index.html").write_text("<p>a page of mine", encoding="utf-8")
    assert written_files(suite / "report") == []


def test_the_files_that_were_written_are_known_by_the_manifest_alone(suite):
    written = write_report(suite)
    foreign(suite / "report", "notes.csv", "figures/mine.svg")
    found = written_files(suite / "report")
    assert {*found, suite / "report" / MANIFEST} == set(written.files)
    (suite / "report" / "results.csv").unlink()
    assert len(written_files(suite / "report")) == len(found) - 1
    assert written_files(suite / "none") == []


@pytest.mark.parametrize("name", ["report", "report/figures"])
def test_a_link_that_leads_out_of_the_folder_is_refused(suite, tmp_path, name):
    home = tmp_path / "home"
    foreign(home, "results.csv", "figures/x.svg")
    (home / "ours.svg").write_text(f"<svg {MARKER}/>", encoding="utf-8")
    before = contents(home)
    (suite / name).parent.mkdir(exist_ok=True)
    (suite / name).symlink_to(home)
    for out in (None, suite / "report"):
        with pytest.raises(InitbenchError, match="lies behind a link that leads out of ") as error:
            write_report(suite, out)
        assert "\n" not in str(error.value)
    assert contents(home) == before
    assert written_files(suite / "report") == []


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_leads_to_is_not(suite, tmp_path):
    foreign(tmp_path, "precious")
    for name in ("index.html", "results.csv", "figures/quotient-plain-depth=28-width=1.svg", MANIFEST):
        (suite / "report" / name).parent.mkdir(parents=True, exist_ok=True)
        (suite / "report" / name).symlink_to(tmp_path / "precious")
    for path in write_report(suite).files:
        assert not path.is_symlink()
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("_limited")
@pytest.mark.parametrize(
    "name",
    [
        *("figures/x.svg", "figures/quotient-plain-depth=28-width=1.svg", "index.html", "results.csv"),
        *(MANIFEST, "../suite.yaml"),
    ],
)
def test_a_pipe_hangs_no_report(suite, name):
    (suite / "report" / "figures").mkdir(parents=True)
    os.mkfifo(suite / "report" / name)
    assert write_report(suite).page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("_limited")
def test_a_pipe_in_the_place_of_the_resolved_suite_is_one_line(suite):
    os.mkfifo(suite / "resolved.json")
    with pytest.raises(InitbenchError, match=r"resolved\.json: is no resolved suite \(is a pipe, not a file\)"):
        write_report(suite)


def test_a_device_is_not_read(suite):
    (suite / "suite.yaml").symlink_to("/dev/zero")
    assert write_report(suite).page.exists()
    (suite / "report" / "figures" / "zero.svg").symlink_to("/dev/zero")
    assert write_report(suite).page.exists()


@pytest.mark.usefixtures("_limited")
def test_text_replaces_no_pipe(suite, tmp_path):
    results = read_results(suite)
    os.mkfifo(tmp_path / "page.md")
    with pytest.raises(InitbenchError, match=r"page\.md: is a pipe, not a file$"):
        write_markdown(results, tmp_path / "page.md")
    os.mkfifo(tmp_path / "tables.tex")
    with pytest.raises(InitbenchError, match=r"tables\.tex: is a pipe, not a file$"):
        write_text(results, tmp_path / "tables.tex", "latex")


def test_markdown_leaves_charts_of_other_origin_and_what_a_link_leads_to(suite, tmp_path):
    results, page = read_results(suite), tmp_path / "pages" / "page.md"
    write_markdown(results, page)
    [chart] = [path for path in page.with_suffix("").iterdir() if path.name.startswith("quotient")]
    chart.write_text("mine", encoding="utf-8")
    before = contents(page.parent)
    with pytest.raises(InitbenchError, match="was not made by initbench report; give another folder"):
        write_markdown(results, page)
    assert contents(page.parent) == before
    foreign(tmp_path / "home", "x.svg")
    (page.parent / "linked").symlink_to(tmp_path / "home")
    with pytest.raises(InitbenchError, match="lies behind a link that leads out of "):
        write_markdown(results, page.parent / "linked.md")
    assert contents(tmp_path / "home") == {"x.svg": b"mine"}


def test_a_page_that_is_no_text_is_not_replaced(suite, tmp_path):
    page = tmp_path / "page.md"
    page.write_bytes(b"\xff\xfe")
    with pytest.raises(InitbenchError, match=r"page\.md: was not made by initbench report"):
        write_markdown(read_results(suite), page)
    assert page.read_bytes() == b"\xff\xfe"
