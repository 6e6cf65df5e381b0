"""Figures that cannot be drawn: they cost themselves alone, and the report says so."""

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from drawings import SVG, parsed
from ledgers import DELTA_1, KAIMING, make_record, make_spec, write_ledger

from initbench.errors import InitbenchError
from initbench.reporting.charts import rendering
from initbench.reporting.charts.axis import axis
from initbench.reporting.charts.figure import MARKER, Figure
from initbench.reporting.charts.lines import lines
from initbench.reporting.report import write_report
from initbench.reporting.results import read_results
from initbench.reporting.text_report import write_markdown

REPOSITORY = Path(__file__).parents[2]
DEADLY = "a\0b"  # of which vl-convert 1.9.0 aborts its process, where it gets it as it is
NOTICE = r"could not be drawn \(the drawing process died of SIGABRT\); their numbers are in the tables\."


def figure(label):
    point = {"series": label, "kind": "", "low": math.nan, "high": math.nan, "words": label}
    panel = lines(
        [point | {"x": x, "value": x} for x in (1, 2, 3)], {label: "#0072b2"}, axis(f"steps {label}"), axis("error (%)")
    )
    return Figure("steps", f"Error: {label}", f"It ends at {label}.", panel)


def suite(folder, label="norms"):
    """A suite's folder: two initializers of two seeds, with values by layer of a probe of this name."""
    probe = {"name": label, "kind": "per_layer", "values": {"a.weight": 1.0, "b.weight": 2.0}, "unit": ""}
    records = [
        make_record(make_spec(initializer, seed=seed), 0.1 * place)
        for place, initializer in enumerate((KAIMING, DELTA_1), start=1)
        for seed in range(2)
    ]
    records = [replace(record, probes=[*record.probes, probe | {"conditions": {}}]) for record in records]
    return write_ledger(folder, records).folder


@pytest.fixture
def _as_it_is(monkeypatch):
    """Texts go to vl-convert as they are, in a process of the test's own."""
    monkeypatch.setattr("initbench.ledger.record.with_visible_text", lambda data: data)
    monkeypatch.setattr(rendering, "plain_data", lambda data: data)
    drawing = rendering._Drawing()
    monkeypatch.setattr(rendering, "_drawing", lambda: drawing)
    yield
    drawing.close()


def test_what_is_invisible_in_a_figure_is_drawn(tmp_path):
    found = figure("a\0\x1b[2J\ud800\u202eb")
    shown = r"a\x00\x1b[2J\ud800\u202eb"
    assert found.problem == ""
    assert shown in found.svg
    texts = ["".join(text.itertext()) for text in parsed(found.file()).iter(f"{SVG}text")]
    assert {f"Error: {shown}", f"steps {shown}", shown} <= set(texts)
    for form in (".svg", ".pdf", ".png"):
        assert found.save(tmp_path / f"f{form}").stat().st_size > 1000
    assert shown in (tmp_path / "f.svg").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_as_it_is")
def test_a_figure_that_cannot_be_drawn_is_a_drawing_that_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = figure(DEADLY)
    assert found.problem == "the drawing process died of SIGABRT"
    said = "This figure could not be drawn: the drawing process died of SIGABRT."
    for drawing in (found.drawing, found.svg, found.file()):
        assert said in ["".join(text.itertext()) for text in parsed(drawing).iter(f"{SVG}text")]
    assert MARKER in found.file()[:200]
    assert figure("a").problem == ""
    for form in ("svg", "pdf", "png"):
        with pytest.raises(InitbenchError, match=rf"^f\.{form}: could not be drawn: the drawing process died"):
            found.save(f"f.{form}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("_as_it_is")
def test_one_figure_costs_itself_alone(tmp_path, capfd):
    folder = suite(tmp_path / "runs", DEADLY)
    written = write_report(folder)
    page = written.page.read_text(encoding="utf-8")
    notices = re.findall(r'<p class="notice" role="note">(.*?)</p>', page)
    drawings = [path for path in written.files if path.suffix == ".svg"]
    assert len(notices) == 1
    assert re.fullmatch(f"1 of {len(drawings)} figures {NOTICE}", notices[0])
    assert page.count("This figure could not be drawn") == 1
    undrawn = [path for path in drawings if "could not be drawn" in path.read_text(encoding="utf-8")]
    assert [path.name for path in undrawn] == ["a-b-plain-depth=28-width=1.svg"]
    assert (folder / "report" / "probe_layers.csv").exists()
    assert capfd.readouterr().err == ""
    text = write_markdown(read_results(folder), tmp_path / "page.md").read_text(encoding="utf-8")
    assert "**Note:** 1 of" in text


def test_where_memory_is_limited_there_is_a_report_without_figures(tmp_path):
    folder = suite(tmp_path / "runs")
    command = 'ulimit -c unlimited; ulimit -v 8000000; exec "$0" -m initbench report "$1" --out "$2"'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, folder, tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("This figure could not be drawn") == page.count("<figure") > 2
    [notice] = re.findall(r'<p class="notice" role="note">(.*?)</p>', page)
    assert re.match(r"(\d+) of \1 figures could not be drawn \(the drawing process died of SIG\w+\);", notice)
    assert (tmp_path / "out" / "comparison.csv").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "runs"]  # no core
