"""The files of a report: which there are, that equal ledgers give equal ones, and that the page stands alone."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from drawings import parsed
from ledgers import (
    DELTA_1,
    ERROR,
    KAIMING,
    METAINIT,
    PLAIN,
    WRN,
    cell,
    make_record,
    make_spec,
    quickstart_records,
    write_ledger,
)

from initbench.comparing.formatting import percent
from initbench.errors import InitbenchError
from initbench.reporting.charts.style import PALETTE
from initbench.reporting.frame import load_results
from initbench.reporting.manifest import MANIFEST
from initbench.reporting.page import html
from initbench.reporting.questions.workloads import comparison_frame
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results

SCRIPT = Path(html.__file__).parent / "templates" / "script.js"
HOSTILE = "\"><script>alert('x')</script>&<img src=http://example.org/a.png>"
SECTIONS = ("cost", "training", "workloads", "every-trial", "conditions", "methods", "reading")


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The folder of the made-up quickstart, and what was written."""
    folder = tmp_path_factory.mktemp("quickstart")
    write_ledger(folder, quickstart_records())
    return folder, write_report(folder)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def own_script(text):
    """Check that the page's scripts are its data and ours alone, and return the page without them."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert [attributes for attributes, _ in found] == [' type="application/json" id="trials-data"', ""]
    json.loads(found[0][1])
    assert found[1][1].strip() == SCRIPT.read_text(encoding="utf-8").strip()
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def words(text):
    """Return the words of a page, without what draws, its style and its marks."""
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<script.*?</script>", "", text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", "", text)).split(" "))


def report(folder, records, **options):
    write_ledger(folder, records)
    return write_report(folder, **options).page.read_text(encoding="utf-8")


def test_the_files_of_a_report(quickstart):
    folder, written = quickstart
    assert written.page == written.files[0] == folder / "report" / "index.html"
    assert len(set(written.files)) == len(written.files)
    assert {str(path.relative_to(written.page.parent)) for path in written.files} == set(files(written.page.parent))
    tables = {path.name for path in written.files if path.suffix == ".csv"}
    assert {"results.csv", "comparison.csv", "conditions.csv", "costs.csv", "curves.csv", "probes.csv"} < tables
    figures = [path for path in written.files if path.parent.name == "figures"]
    assert {path.suffix for path in figures} == {".svg"}
    assert len(figures) == written.page.read_text(encoding="utf-8").count("<figure")
    for name, table in {
        "results": load_results(folder),
        "comparison": comparison_frame(read_results(folder)),
    }.items():
        pd.testing.assert_frame_equal(pd.read_csv(written.page.parent / f"{name}.csv"), table, check_dtype=False)


def test_the_columns_of_the_tables(quickstart):
    folder, written = quickstart
    names = {path.stem: list(pd.read_csv(path).columns) for path in written.files if path.suffix == ".csv"}
    assert names["results"] == list(load_results(folder).columns)
    assert names["comparison"][:8] == [
        *("workload", "treatment", "rank", "seeds", "diverged", "failed", "outcome_median", "outcome_mean"),
    ]
    assert {"state", "trained", "chance"} < set(names["comparison"])
    assert names["conditions"] == ["section", "condition", "differs", "made-up"]
    # Whole labels, which tell apart whatever could be confused: a table is read by programs.
    labels = set(load_results(folder)["treatment"])
    for name in ("comparison", "costs", "curves", "differences", "paired_differences", "divergence"):
        table = pd.read_csv(written.page.parent / f"{name}.csv")
        assert set(table["treatment"]) <= labels, name


def test_equal_ledgers_give_equal_files_wherever_they_are_written(tmp_path, quickstart):
    write_ledger(tmp_path / "b", quickstart_records()[::-1])
    second = write_report(tmp_path / "b", tmp_path / "elsewhere").page
    assert second == tmp_path / "elsewhere" / "index.html"
    assert files(second.parent) == files(quickstart[1].page.parent)


@pytest.mark.parametrize("trials", [False, True])
def test_a_folder_without_records_writes_nothing(tmp_path, trials):
    if trials:
        (tmp_path / "trials").mkdir()
    with pytest.raises(InitbenchError, match="no trial records"):
        write_report(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["trials"] * trials


def test_a_page_that_cannot_be_written_is_one_line_and_leaves_no_part_of_it(tmp_path):
    write_ledger(tmp_path, cell([0.1]))
    (tmp_path / "out" / "index.html").mkdir(parents=True)
    with pytest.raises(InitbenchError, match=r"index\.html: Is a directory$"):
        write_report(tmp_path, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.part"))


def test_the_page_shows_what_ran_and_what_came_of_it(quickstart):
    text = words(quickstart[1].page.read_text(encoding="utf-8"))
    for shown in (
        "24 trials: 4 initializers × 2 networks × 3 seeds",
        "8 epochs of SGD, rate 0.1",
        "epochs 8 · batch_size 64 · optimizer sgd · lr 0.1 · momentum 0.9 · schedule cosine",
        "2 of 3 seeds",  # one diverged
        "torch 2.13.0",
        "gradient_quotient with ε 1e-05 · batch size 32 · batches 4 · data random · mode eval",
        "not enough initializers (n = 2)",  # of four, two are saturated on plain
    ):
        assert shown in text
    notes = re.findall(r"369,498 parameters · .*", text)
    assert ["clip_norm 1.0" in note for note in notes] == [True, False]  # a rule set it on plain alone
    assert "betas" not in text  # Adam's, and the optimizer is SGD
    for sentence in quickstart[1].sentences:
        assert str(sentence) in text
    page = quickstart[1].page.read_text(encoding="utf-8")
    for section in SECTIONS:
        assert page.count(f'id="{section}"') == 1


def test_percentages_have_one_form(quickstart):
    assert ERROR.text(0.0306, 0.0068) == "3.06 ± 0.68\N{NO-BREAK SPACE}%"
    assert ERROR.text(0.9) == percent(0.9) == "90.00\N{NO-BREAK SPACE}%"
    assert ERROR.text(math.nan) == percent(math.nan) == "–"
    text = words(quickstart[1].page.read_text(encoding="utf-8"))
    assert "3.06 ± 0.68\N{NO-BREAK SPACE}%" in text
    assert not re.search(r"\b(nan|inf|None|NaN)\b", text)


@pytest.mark.parametrize(
    "suite",
    [None, "", "- a list", "name: [", "description: 3", "!!python/object:os.system {}", "\x00", "a: 1\na: 2"],
)
def test_a_report_needs_no_readable_suite_file(tmp_path, suite):
    if suite is not None:
        (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    assert 'class="question"' not in report(tmp_path, [make_record(make_spec(KAIMING), status="failed")])


def test_title_and_description(tmp_path):
    (tmp_path / "suite.yaml").write_text("name: made-up\ndescription: Does it train?\n", encoding="utf-8")
    text = report(tmp_path, cell([0.1]))
    assert "<h1>made-up</h1>" in text
    assert '<p class="question">Does it train?</p>' in text
    text = write_report(tmp_path, title="T <1>", description="D <2>").page.read_text(encoding="utf-8")
    assert "<h1>T &lt;1&gt;</h1>" in text
    assert "D &lt;2&gt;" in text


def test_hostile_text_is_escaped_everywhere(tmp_path):
    hostile = {"name": HOSTILE, "argument": HOSTILE}
    error = {"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    records = [make_record(make_spec(hostile, hostile, seed, dataset=hostile, suite=HOSTILE)) for seed in range(2)]
    records.append(make_record(make_spec(hostile, hostile, 3, dataset=hostile), status="failed", error=error))
    records.append(make_record(make_spec(hostile, hostile, 4, dataset=hostile), status="diverged"))
    records[0].environment[HOSTILE] = HOSTILE
    for record in records:
        for probe in record.probes:
            probe["conditions"]["data"] = HOSTILE
    (tmp_path / "suite.yaml").write_text(f"description: '{HOSTILE.replace(chr(39), chr(39) * 2)}'", encoding="utf-8")
    text = own_script(report(tmp_path, records))
    assert "<script" not in text
    assert "<img" not in text
    assert text.count("&lt;script&gt;") >= 10
    drawings = re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL) + re.findall(
        r"<figure.*?(<svg.*?</svg>)", text, re.DOTALL
    )
    assert drawings
    for drawing in [*drawings, *files(tmp_path / "report" / "figures").values()]:
        parsed(drawing)


def test_the_page_fetches_nothing(tmp_path):
    whole = report(tmp_path, [*quickstart_records(), make_record(make_spec(KAIMING, seed=8), status="failed")])
    text = own_script(whole)
    assert not re.search(r"<(script|link|iframe|object|embed|base|img)\b", text)
    assert not re.search(r"@import|url\((?!#)", text)
    references = set(re.findall(r"""\b(?:src|href|srcset|data|action)\s*=\s*["']?([^"'\s>]*)""", text))
    here = {unescape(reference).replace("%3D", "=") for reference in references if not reference.startswith("#")}
    written = set(files(tmp_path / "report"))
    assert here == written - {"index.html", MANIFEST}  # every file is offered, and nothing that there is not
    for anchor in references:
        if anchor.startswith("#"):
            assert f'id="{anchor[1:]}"' in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|import|WebSocket|eval)\b", SCRIPT.read_text(encoding="utf-8"))
    # The only addresses left are the names of SVG's namespaces.
    assert set(re.findall(r"https?://[^\"'\s<]+", whole)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_failed_trials_are_shown_with_their_error(tmp_path):
    error = {"type": "InitializationError", "message": "conv1.weight: zero norm", "traceback": "Traceback\n  line 7"}
    failed = [make_record(make_spec(METAINIT, seed=s), status="failed", error=error) for s in range(52)]
    text = report(tmp_path, [*cell([0.1]), *failed])
    assert text.count("InitializationError: conv1.weight: zero norm</summary>") == 50
    assert text.count("<pre>Traceback\n  line 7</pre>") == 50
    assert "2 more failed" in text
    assert "52 trials ended with an error" in text
    assert "52 failed" in words(text)  # in the line of facts


def test_trials_that_cannot_be_drawn_are_counted(tmp_path):
    records = [
        *(make_record(make_spec(KAIMING, seed=s), 0.2, quotient=None) for s in range(2)),
        *cell([0.1, 0.1], METAINIT),
        make_record(make_spec(KAIMING, WRN), 0.3, quotient=None),
    ]
    text = words(report(tmp_path, records))
    assert text.count("Not drawn, because the gradient quotient is not finite: 2 trials.") == 1
    assert text.count("Not drawn, because the gradient quotient is not finite in any trial: wrn-28.") == 1
    drawn = words(report(tmp_path / "all", cell([0.1, 0.2])))
    assert "is not finite" not in drawn


def test_tables_have_captions_and_what_is_empty_is_not_written(tmp_path, quickstart):
    text = own_script(quickstart[1].page.read_text(encoding="utf-8"))
    captions = re.findall(r"<table[^>]*>\s*<caption[^>]*>([^<]*)</caption>", text)
    assert len(captions) == text.count("<table")
    assert all(caption.strip() for caption in captions)
    lone = report(tmp_path, cell([0.1]))
    for page in (text, lone):
        assert not re.search(r'<div class="panels">\s*</div>', page)
        assert not re.search(r"<tbody>\s*</tbody>|<(ul|dl)[^>]*>\s*</\1>", page)
    assert not list((tmp_path / "report").glob("differences.csv"))  # nothing differs from what is alone
    for path in (tmp_path / "report").glob("*.csv"):
        assert len(path.read_text(encoding="utf-8").splitlines()) > 0


def test_what_is_not_known_is_set_apart(quickstart):
    text = quickstart[1].page.read_text(encoding="utf-8")
    items = re.findall(
        r"<li( class=\"open\")?>(.*?)</li>", text.partition('<ul class="happened">')[2].partition("</ul>")[0]
    )
    said = {words(item): bool(is_open) for is_open, item in items}
    assert said == {str(sentence): sentence.is_open for sentence in quickstart[1].sentences}
    assert True in said.values()


def test_different_seeds_are_pointed_out(tmp_path):
    unpaired = "Not every initializer has results for the same seeds on plain-28"
    assert unpaired not in report(tmp_path / "a", [*cell([0.1, 0.2]), *cell([0.1, 0.2], DELTA_1)])
    assert unpaired in report(tmp_path / "b", [*cell([0.1, 0.2]), *cell([0.1, 0.2, 0.3], DELTA_1)])


def test_an_eleventh_initializer_is_told_from_the_first_in_every_legend_and_line(tmp_path):
    records = [
        make_record(make_spec({"name": f"initializer_{i:02}"}, architecture), 0.1 + i / 100)
        for i in range(12)
        for architecture in (PLAIN, WRN)
    ]
    text = report(tmp_path / "twelve", records)
    legends = re.findall(r'<ul class="key".*?</ul>', text, re.DOTALL)
    assert legends
    for legend in legends:
        symbol = {words(item).strip(): item for item in re.findall(r"<li>(.*?)</li>", legend, re.DOTALL)}
        drawn = {re.search(r"<svg.*?</svg>", item)[0] for item in symbol.values()}
        assert len(drawn) == len(symbol) == 12  # by colour and shape
        assert PALETTE[0] in symbol["initializer_00"]
        assert PALETTE[0] in symbol["initializer_10"]
    for name in ("steps-plain-depth=28-width=1", "steps-wrn-depth=28-width=1"):
        drawing = (tmp_path / "twelve" / "report" / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        dashed = {stroke for stroke, dash in re.findall(r'<path[^>]*stroke="(#\w+)"[^>]*dasharray="(6,3)"', drawing)}
        assert dashed == set(PALETTE[:2]), name
        for number in range(12):
            assert f">initializer_{number:02}</text>" in drawing
    report(tmp_path / "ten", [r for r in records if int(r.spec["initializer"]["name"][-2:]) < 10])
    assert all(b'dasharray="6' not in content for content in files(tmp_path / "ten" / "report").values())


def test_reporting_loads_neither_torch_nor_ray_nor_mlflow_nor_a_plug_in(tmp_path):
    """Of plug-ins and built-ins alike: a report knows them by their records."""
    write_ledger(tmp_path, quickstart_records())
    script = (
        "import sys; from initbench.reporting.report import write_report; write_report(sys.argv[1]);"
        "print([name for name in ('torch', 'ray', 'mlflow', 'torchvision', 'timm', 'initbench.plugins')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
