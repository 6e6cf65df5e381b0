from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from ledgers import DELTA_1, KAIMING, make_record, make_spec, quickstart_records, write_ledger

from initbench.errors import InitbenchError
from initbench.reporting.charts import colours
from initbench.reporting.comparison import comparable_trials, compare
from initbench.reporting.formatting import percent
from initbench.reporting.frame import load_results
from initbench.reporting.markdown import MARK
from initbench.reporting.parts import file_names
from initbench.reporting.report import write_markdown


def rows(text):
    """The cells of every line of a table, the two lines of its head left out."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return [[c.strip() for c in line] for line in cells if line[0].strip() != "initializer" and "---" not in line[0]]


def test_tables_hold_the_comparison_in_its_order(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    text = write_markdown(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    comparison = compare(comparable_trials(load_results(tmp_path)))
    shown = rows(text)
    assert len({len(row) for row in shown}) == 1
    assert [row[0].replace("\\", "") for row in shown] == list(comparison["initializer"])
    assert [row[1] for row in shown] == [str(n) for n in comparison["seeds"]]
    assert [row[2] for row in shown] == [percent(e) for e in comparison["test_error_median"]]
    assert [row[5] for row in shown] == [str(n) for n in comparison["diverged"]]
    assert [" saturated" in row[6] for row in shown] == [n > 0 for n in comparison["gradient_quotient_saturated"]]


def test_every_chart_is_a_file_that_a_page_of_any_colour_can_show(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    page = write_markdown(tmp_path, tmp_path / "results" / "page.md")
    named = re.findall(r"\(page/([^)]+)\)", page.read_text(encoding="utf-8"))
    assert sorted(named) == sorted(path.name for path in (page.parent / "page").iterdir())
    assert len(named) == 3  # the legend and two groups
    for name in named:
        drawn = (page.parent / "page" / name).read_text(encoding="utf-8")
        ET.fromstring(drawn)  # noqa: S314  # our own drawing
        assert "currentColor" not in drawn
    legend = (page.parent / "page" / "legend.svg").read_text(encoding="utf-8")
    for name, colour in colours(list(load_results(tmp_path)["initializer"])).items():
        assert re.search(rf'fill="{colour}"/><text[^>]*>{re.escape(name)}<', legend)


def test_what_a_person_wrote_above_the_line_is_kept(tmp_path):
    write_ledger(tmp_path / "runs", [make_record(make_spec(KAIMING), 0.25)])
    page = write_markdown(tmp_path / "runs", tmp_path / "page.md")
    head, _, _ = page.read_text(encoding="utf-8").partition(MARK)
    assert head.startswith("# made-up\n")
    page.write_text("# My words\n\nthat I wrote.\n" + MARK + "\nold numbers", encoding="utf-8")
    write_ledger(tmp_path / "runs", [make_record(make_spec(DELTA_1), 0.125)])
    text = write_markdown(tmp_path / "runs", page).read_text(encoding="utf-8")
    assert text.startswith("# My words\n\nthat I wrote.\n" + MARK)
    assert "old numbers" not in text
    assert "12.50" in text
    assert "25.00" in text
    assert text.count(MARK) == 1


def test_a_file_of_someone_else_is_not_touched(tmp_path):
    write_ledger(tmp_path / "runs", [make_record(make_spec(KAIMING))])
    page = tmp_path / "notes.md"
    page.write_text("# Notes\n", encoding="utf-8")
    with pytest.raises(InitbenchError, match=r"notes\.md: was not made by initbench report"):
        write_markdown(tmp_path / "runs", page)
    assert page.read_text(encoding="utf-8") == "# Notes\n"
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RESULTS", r"RESULTS: a Markdown file ends in \.md$"),
        ("folder.md", r"folder\.md: Is a directory$"),
        ("taken.md", r"taken: File exists$"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(tmp_path, name, message):
    write_ledger(tmp_path / "runs", quickstart_records())
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InitbenchError, match=message):
        write_markdown(tmp_path / "runs", tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_spaces_in_the_name_are_written_so_that_images_are_found(tmp_path):
    write_ledger(tmp_path / "runs", quickstart_records())
    text = write_markdown(tmp_path / "runs", tmp_path / "my page.md").read_text(encoding="utf-8")
    assert "](my%20page/legend.svg)" in text
    assert (tmp_path / "my page" / "legend.svg").is_file()


def test_every_group_has_a_file_of_its_own():
    assert file_names(["small_net", "small-net", "small net", "legend", "网"], taken=["legend"]) == {
        "small_net": "small_net",
        "small-net": "small-net",
        "small net": "small-net-2",
        "legend": "legend-2",
        "网": "chart",
    }
