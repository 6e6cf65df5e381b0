from __future__ import annotations

import re
from dataclasses import replace

import pytest
from drawings import parsed
from initbench.reporting.markdown import MARK
from initbench.reporting.parts import file_names
from ledgers import DELTA_1, ERROR, KAIMING, make_record, make_spec, quickstart_records, write_ledger
from reports import comparison as comparison_of

from initbench.errors import InitbenchError
from initbench.reporting.charts import colours
from initbench.reporting.frame import load_results
from initbench.reporting.report import read_source, write_markdown


def rows(text):
    """The cells of every line of a table, the two lines of its head left out."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    return [[c.strip() for c in line] for line in cells if line[0].strip() != "initializer" and "---" not in line[0]]


def test_tables_hold_the_comparison_in_its_order(tmp_path):
    write_ledger(tmp_path, quickstart_records())
    text = write_markdown(tmp_path, tmp_path / "page.md").read_text(encoding="utf-8")
    comparison = comparison_of(quickstart_records())
    shown = rows(text)
    assert len({len(row) for row in shown}) == 1
    assert [row[0].replace("\\", "") for row in shown] == list(comparison["treatment"])
    assert [row[1] for row in shown] == [str(n) for n in comparison["seeds"]]
    assert [row[2] for row in shown] == [ERROR.text(e) for e in comparison["outcome_median"]]
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
        parsed(drawn)
        assert "currentColor" not in drawn
    legend = (page.parent / "page" / "legend.svg").read_text(encoding="utf-8")
    for name, colour in colours(list(load_results(tmp_path)["treatment"])).items():
        assert re.search(rf'fill="{colour}"/><text[^>]*>{re.escape(name)}<', legend)


def test_what_a_reader_is_warned_of_stands_before_the_verdicts(tmp_path):
    random_data = {"name": "random", "train_size": 8}
    records = [
        make_record(make_spec(KAIMING, suite="s-smoke", dataset=random_data)),
        make_record(make_spec(KAIMING, suite="other", dataset=random_data, recipe={"lr": 0.5})),
    ]
    ledgers = [write_ledger(tmp_path / name, [record]) for name, record in zip("ab", records, strict=True)]
    for number in range(22):
        (ledgers[0].trials / f"broken_{number:02}.json").write_text("{", encoding="utf-8")
    read = read_source([ledger.folder for ledger in ledgers])
    source = replace(read, notes=("1 trial stands in more than one ledger.",))
    text = write_markdown(source, tmp_path / "page.md").read_text(encoding="utf-8")
    warned = text[text.index("0 failed.") : text.index("### Verdicts")]
    assert "**A smoke run**" in warned
    assert "**22 records could not be read** and are missing below:" in warned
    assert len(re.findall(r"^- a/trials/broken\\_\d\d\.json: ", warned, re.MULTILINE)) == 20
    assert "\n- and 2 more\n" in warned
    assert "\n1 trial stands in more than one ledger.\n" in warned
    assert "\nThe suites differ in lr (other: 0.5; s-smoke: 0.1).\n" in warned


def test_without_reason_nobody_is_warned(tmp_path):
    write_ledger(tmp_path / "runs", [make_record(make_spec(KAIMING))])
    text = write_markdown(tmp_path / "runs", tmp_path / "page.md").read_text(encoding="utf-8")
    assert "0 failed.\n\n- Seeds: 0\n" in text


def test_charts_of_an_earlier_writing_are_removed_and_others_are_kept(tmp_path):
    charts = tmp_path / "page"
    write_ledger(tmp_path / "two", quickstart_records())
    write_ledger(tmp_path / "one", [r for r in quickstart_records() if r.spec["architecture"]["name"] == "wrn"])
    write_markdown(tmp_path / "two", tmp_path / "page.md")
    assert len(list(charts.iterdir())) == 3
    (charts / "mine.svg").write_text("<svg/>", encoding="utf-8")
    write_markdown(tmp_path / "one", tmp_path / "page.md")
    assert {path.name for path in charts.iterdir()} == {"legend.svg", "wrn-depth=28-width=1.svg", "mine.svg"}


def test_images_say_in_words_what_they_show(tmp_path):
    write_ledger(tmp_path / "runs", quickstart_records())
    text = write_markdown(tmp_path / "runs", tmp_path / "page.md").read_text(encoding="utf-8")
    said = re.findall(r"^!\[(.*)\]\(page/wrn", text, re.MULTILINE)
    assert len(said) == 1
    assert said[0].startswith(r"Test error against gradient quotient on wrn\[depth=28, width=1\]: 12 trials of 4")
    assert "; 1 diverged, 0 with a saturated quotient." in said[0]


def test_the_legend_shows_the_dashes_of_lines_whose_colour_another_has(tmp_path):
    records = [make_record(make_spec({"name": f"initializer_{i}"})) for i in range(12)]
    write_ledger(tmp_path / "runs", records)
    write_markdown(tmp_path / "runs", tmp_path / "page.md")
    legend = (tmp_path / "page" / "legend.svg").read_text(encoding="utf-8")
    parsed(legend)
    assert legend.count("<circle") == 10
    assert re.findall(r'stroke-dasharray="6 3"/><text[^>]*>(\w+)<', legend) == ["initializer_10", "initializer_11"]


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


def test_long_names_are_cut_and_cases_are_no_difference():
    long = "x" * 300
    names = [f"{long}-a", f"{long}-b", "Small", "small", "LEGEND"]
    chosen = list(file_names(names, "quotient-", taken=["quotient-legend"]).values())
    assert len({name.casefold() for name in chosen}) == len(names)
    stem = ("quotient-" + long)[:120]
    assert chosen == [stem, f"{stem}-2", "quotient-Small", "quotient-small-2", "quotient-LEGEND-2"]
