from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from drawings import parsed
from initbench.reporting.statistics.wording import NOT_ENOUGH
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
from reports import comparison

import initbench.reporting
from initbench.errors import InitbenchError
from initbench.reporting.charts import PALETTE
from initbench.reporting.formatting import percent
from initbench.reporting.frame import load_results
from initbench.reporting.report import write_report

SCRIPT = Path(initbench.reporting.__file__).parent / "templates" / "script.js"
HOSTILE = "\"><script>alert('x')</script>&<img src=http://example.org/a.png>"


TABLES = (
    "results",
    "comparison",
    "correlation",
    "curves",
    "conditions",
    "differences",
    "costs",
    "probes",
    "paired_differences",
)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def own_script(text):
    """Check that the page's scripts are its data and ours alone, and return the page without them."""
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert [attributes for attributes, _ in found] == [' type="application/json" id="trials-data"', ""]
    json.loads(found[0][1])
    assert found[1][1].strip() == SCRIPT.read_text(encoding="utf-8").strip()
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def report(folder, records, **options):
    write_ledger(folder, records)
    return write_report(folder, **options).read_text(encoding="utf-8")


def test_the_files_of_a_report(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    page = write_report(tmp_path)
    assert page == tmp_path / "report" / "index.html"
    names = {path.name for path in page.parent.iterdir()}
    assert names == {"index.html", "figures", *(f"{name}.csv" for name in TABLES)}
    frame = load_results(tmp_path)
    tables = {"results": frame, "comparison": comparison(quickstart_records())}
    for name, table in tables.items():
        read = pd.read_csv(page.parent / f"{name}.csv")
        pd.testing.assert_frame_equal(read, table, check_dtype=False)


def test_equal_ledgers_give_equal_files_wherever_they_are_written(tmp_path):
    records = quickstart_records()
    write_ledger(tmp_path / "a", records)
    write_ledger(tmp_path / "b", records[::-1])
    first, second = write_report(tmp_path / "a"), write_report(tmp_path / "b", tmp_path / "elsewhere")
    assert second == tmp_path / "elsewhere" / "index.html"
    assert files(first.parent) == files(second.parent)


def test_a_folder_without_records_writes_nothing(tmp_path):
    with pytest.raises(InitbenchError, match="no trial records"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_page_shows_what_ran_and_what_came_of_it(tmp_path):
    text = report(tmp_path, quickstart_records())
    for shown in (
        "<b>23</b>finished",
        "<b>1</b>diverged",
        "<b>0</b>failed",
        "epochs 8 · batch_size 64 · optimizer sgd · lr 0.1 · momentum 0.9 · schedule cosine",
        "369,498 parameters · clip_norm 1.0",  # on plain, where a rule set it
        "369,498 parameters</p>",  # on wrn
        "torch 2.13.0",
        "gradient_quotient with ε 1e-05 · batch size 32 · batches 4 · data random · mode eval",
        "not enough initializers (n = 2); 2 left out, saturated",
    ):
        assert shown in text
    assert "betas" not in text  # Adam's, and the optimizer is SGD


def test_percentages_have_one_form(tmp_path):
    assert ERROR.text(0.0306, 0.0068) == "3.06 ± 0.68\N{NO-BREAK SPACE}%"
    assert ERROR.text(0.9) == percent(0.9) == "90.00\N{NO-BREAK SPACE}%"
    assert ERROR.text(math.nan) == percent(math.nan) == "–"
    text = report(tmp_path, quickstart_records())
    assert "3.06 ± 0.68\N{NO-BREAK SPACE}%" in text
    words = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", own_script(text), flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|None|NaN)\b", words)


@pytest.mark.parametrize(
    "suite",
    [None, "", "- a list", "name: [", "description: 3", "!!python/object:os.system {}", "\x00", "a: 1\na: 2"],
)
def test_a_report_needs_no_readable_suite_file(tmp_path, suite):
    if suite is not None:
        (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    assert 'class="lead"' not in report(tmp_path, cell([0.1]))


def test_title_and_description(tmp_path):
    (tmp_path / "suite.yaml").write_text("name: made-up\ndescription: Does it train?\n", encoding="utf-8")
    text = report(tmp_path, cell([0.1]))
    assert "<h1>made-up</h1>" in text
    assert '<p class="lead">Does it train?</p>' in text
    text = write_report(tmp_path, title="T <1>", description="D <2>").read_text(encoding="utf-8")
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
    drawings = re.findall(r'<svg role="img".*?</svg>', text, re.DOTALL)
    assert drawings
    for drawing in [*drawings, *files(tmp_path / "report" / "figures").values()]:
        parsed(drawing)


def test_the_page_fetches_nothing(tmp_path):
    whole = report(tmp_path, [*quickstart_records(), make_record(make_spec(KAIMING, seed=8), status="failed")])
    text = own_script(whole)
    assert not re.search(r"<(script|link|iframe|object|embed|base)\b", text)
    assert not re.search(r"@import|url\(", text)
    references = set(re.findall(r"""\b(?:src|href|srcset|data|action)\s*=\s*["']?([^"'\s>]*)""", text))
    here = {reference for reference in references if not reference.startswith("#")}
    assert {f"{name}.csv" for name in TABLES} < here
    figures = {path.name for path in (tmp_path / "report" / "figures").iterdir()}
    assert here == {f"{name}.csv" for name in TABLES} | {f"figures/{name}" for name in figures}
    for anchor in references - here:
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


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_a_ledger_without_a_finished_trial_says_so(tmp_path, status):
    text = report(tmp_path, [make_record(make_spec(KAIMING, seed=s), None, status=status) for s in range(3)])
    assert "No trial has finished" in text
    assert ("No trial has a result." in text) == (status == "failed")


def test_trials_that_cannot_be_drawn_are_counted(tmp_path):
    records = [*cell([None], quotient=None), *cell([0.1], METAINIT)]
    assert "1 trial without a finite GQ not drawn" in report(tmp_path, records)


def test_what_is_said_of_a_chart_begins_with_words(tmp_path):
    text = report(tmp_path, cell([None, None], quotient=None))
    assert '<span class="quiet">2 trials without a finite GQ not drawn</span>' in text
    assert "; 2 trials" not in text


def test_tables_have_captions_and_what_is_empty_is_not_written(tmp_path):
    text = report(tmp_path / "a", quickstart_records())
    assert text.count("<table") == text.count("<caption") + 1  # that of the conditions stands below its summary
    assert '<caption class="unseen">Comparison on wrn[depth=28, width=1]</caption>' in text
    lone = report(tmp_path / "b", cell([0.1]))
    for page in (text, lone):
        assert not re.search(r'<div class="panels mixed">\s*</div>', page)
    assert '<div class="panels mixed">' in text


def test_what_is_not_shown_is_bold(tmp_path):
    text = report(tmp_path, quickstart_records())
    said = re.findall(r"<dd>(.*)</dd>", text)
    assert any(sentence.startswith(f"<b>{NOT_ENOUGH}</b> ") for sentence in said)
    assert not any(sentence.startswith(NOT_ENOUGH) for sentence in said)


def test_different_seeds_are_pointed_out(tmp_path):
    unpaired = "not fully paired"
    assert unpaired not in report(tmp_path / "a", [*cell([0.1, 0.2]), *cell([0.1, 0.2], DELTA_1)])
    assert unpaired in report(tmp_path / "b", [*cell([0.1, 0.2]), *cell([0.1, 0.2, 0.3], DELTA_1)])


def test_an_eleventh_initializer_is_told_from_the_first_in_every_legend_and_line(tmp_path):
    records = [
        make_record(make_spec({"name": f"initializer_{i:02}"}, architecture), 0.1 + i / 100)
        for i in range(12)
        for architecture in (PLAIN, WRN)
    ]
    text = report(tmp_path / "twelve", records)
    legend = text[text.index('<ul class="legend">') :].partition("</ul>")[0]
    items = re.findall(r"<li>(.*?)</li>", legend, re.DOTALL)
    dashed = [item for item in items if 'stroke-dasharray="6 3"' in item]
    assert [item.rpartition(">")[2].strip() for item in dashed] == ["initializer_10", "initializer_11"]
    assert sum('class="dot"' in item for item in items) == 10
    colour_of = dict(zip((f"initializer_{i:02}" for i in range(12)), [*PALETTE, *PALETTE], strict=False))
    assert f'stroke="{colour_of["initializer_10"]}"' in dashed[0]
    for name in ("steps-plain-depth=28-width=1", "profile-outcome"):
        drawing = (tmp_path / "twelve" / "report" / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        parsed(drawing)
        assert drawing.count('stroke-dasharray="6,3"') == 2, name
        assert re.findall(r'stroke-dasharray="6 3"/><text[^>]*>(\w+)<', drawing) == ["initializer_10", "initializer_11"]
    report(tmp_path / "ten", [r for r in records if int(r.spec["initializer"]["name"][-2:]) < 10])
    assert all(b'dasharray="6' not in content for content in files(tmp_path / "ten" / "report").values())


def test_reporting_loads_neither_torch_nor_ray_nor_mlflow(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    script = (
        "import sys; from initbench.reporting.report import write_report; write_report(sys.argv[1]);"
        "print([name for name in ('torch', 'ray', 'mlflow', 'torchvision', 'timm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
