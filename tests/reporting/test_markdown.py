"""The report as a Markdown file: its tables, its charts beside it, and what a person wrote above the mark."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from drawings import parsed
from ledgers import DELTA_1, ERROR, KAIMING, make_record, make_spec, quickstart_records, write_ledger

from initbench.errors import InitbenchError
from initbench.reporting.file_names import file_names
from initbench.reporting.heat_map import heat_map
from initbench.reporting.page.markdown import MARK, escaped
from initbench.reporting.questions.overview import overview
from initbench.reporting.results import Results, read_results
from initbench.reporting.source import read_source
from initbench.reporting.text_report import write_markdown


def results_of(folder, records):
    write_ledger(folder, records)
    return read_results(folder)


def written(folder, records, name="page.md"):
    return write_markdown(results_of(folder / "runs", records), folder / name)


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The results of the made-up quickstart, and its Markdown file."""
    folder = tmp_path_factory.mktemp("quickstart")
    results = results_of(folder / "runs", quickstart_records())
    return results, write_markdown(results, folder / "results" / "page.md")


def rows(text):
    """The cells of every line of the first table, its head first."""
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    return [[cell.strip().replace("\\", "") for cell in line] for line in cells if "---" not in line[0]]


def test_the_first_table_is_the_map_in_its_order(quickstart):
    results, page = quickstart
    head, *lines, last = rows(page.read_text(encoding="utf-8"))
    assert len({len(line) for line in (head, *lines, last)}) == 1
    found = heat_map(results)
    assert last[:3] == ["seeds can resolve", *(column.resolution or "–" for column in found.columns)]
    assert head[1:3] == [column.short for column in found.columns]
    assert [line[0] for line in lines] == [f"{r.short} ({r.detail})" if r.detail else r.short for r in found.rows]
    for row, line in zip(found.rows, lines, strict=True):
        for cell, text in zip(row.cells, line[1:], strict=True):
            assert cell.words in text
            assert ("●" in text) == cell.is_best
            assert cell.note in text
    medians = results.cells.set_index(["treatment", "workload"])["outcome"]
    assert ERROR.brief(medians["metainit(delta_orthogonal)", "plain[depth=28, width=1]"]) in lines[0][1]


def test_it_opens_with_the_sentences_of_the_page(quickstart):
    results, page = quickstart
    below = page.read_text(encoding="utf-8").partition("## What happened\n\n")[2].partition("\n\n")[0]
    said = [re.sub(r"\\(?=\W|_)|\*", "", line.removeprefix("- ")) for line in below.splitlines()]
    assert said == [str(sentence) for sentence in overview(results).sentences]


def test_every_chart_is_a_file_that_a_page_of_any_colour_can_show(quickstart):
    results, page = quickstart
    named = re.findall(r"\(page/([^)]+)\)", page.read_text(encoding="utf-8").replace("%3D", "="))
    assert sorted(named) == sorted(path.name for path in (page.parent / "page").iterdir())
    assert {"differences.svg", "quotient-plain-depth=28-width=1.svg", "steps-plain-depth=28-width=1.svg"} <= set(named)
    for name in named:
        drawn = (page.parent / "page" / name).read_text(encoding="utf-8")
        parsed(drawn)
        assert "currentColor" not in drawn
    drawn = (page.parent / "page" / "steps-plain-depth=28-width=1.svg").read_text(encoding="utf-8")
    for name, colour in results.palette.items():  # each has its legend, as nothing stands beside it
        assert colour in drawn
        assert name in drawn


def test_images_say_in_words_what_they_show(quickstart):
    text = quickstart[1].read_text(encoding="utf-8")
    images = re.findall(r"^!\[(.*)\]\(page/(.*)\.svg\)$", text, re.MULTILINE)
    assert all(alt.strip() for alt, _ in images)
    said = {name: alt for alt, name in images}["quotient-plain-depth%3D28-width%3D1"]
    assert said.startswith("Test error against gradient quotient on plain-28: 12 trials of 4 initializers")
    assert "0 diverged, 6 with a saturated value" in said


def test_what_a_reader_is_warned_of_stands_before_the_answers(tmp_path):
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
    text = write_markdown(Results(source), tmp_path / "page.md").read_text(encoding="utf-8")
    warned = text.partition(MARK)[2].partition("## What happened")[0]
    assert "A smoke run" in warned
    assert "22 records could not be read and are missing below: " in warned
    assert len(re.findall(r"a/trials/broken\\_\d\d\.json: ", warned)) == 20
    assert "; and 2 more" in warned
    assert "1 trial stands in more than one ledger." in warned
    assert escaped("The suites differ in lr (other: 0.5; s-smoke: 0.1).") in text


def test_without_reason_nobody_is_warned(tmp_path):
    assert "**Note:**" not in written(tmp_path, [make_record(make_spec(KAIMING))]).read_text(encoding="utf-8")


def test_charts_of_an_earlier_writing_are_removed_and_others_are_kept(tmp_path):
    charts = tmp_path / "page"
    two = results_of(tmp_path / "two", quickstart_records())
    one = results_of(tmp_path / "one", [r for r in quickstart_records() if r.spec["architecture"]["name"] == "wrn"])
    write_markdown(two, tmp_path / "page.md")
    assert any("plain" in path.name for path in charts.iterdir())
    (charts / "mine.svg").write_text("<svg/>", encoding="utf-8")
    text = write_markdown(one, tmp_path / "page.md").read_text(encoding="utf-8").replace("%3D", "=")
    assert {path.name for path in charts.iterdir()} == {*re.findall(r"\(page/([^)]+)\)", text), "mine.svg"}
    assert not any("plain" in path.name for path in charts.iterdir())


EARLIER_MARK = "<!-- Made by initbench report: what stands below is written anew, what stands above is kept. -->"


@pytest.mark.parametrize("mark", [MARK, EARLIER_MARK])
def test_what_a_person_wrote_above_the_line_is_kept(mark, tmp_path):
    page = written(tmp_path, [make_record(make_spec(KAIMING), 0.25)])
    head, _, _ = page.read_text(encoding="utf-8").partition(MARK)
    assert head.startswith("# made-up\n")
    page.write_text("# My words\n\nthat I wrote.\n" + mark + "\nold numbers", encoding="utf-8")
    text = written(tmp_path, [make_record(make_spec(DELTA_1), 0.125)]).read_text(encoding="utf-8")
    assert text.startswith("# My words\n\nthat I wrote.\n" + MARK)
    assert "old numbers" not in text
    assert "12.50" in text
    assert "25.00" in text
    assert text.count("Made by initbench report") == 1


def test_equal_ledgers_give_equal_files(tmp_path, quickstart):
    again = written(tmp_path, quickstart_records()[::-1])
    assert again.read_bytes() == quickstart[1].read_bytes()


def test_a_file_of_someone_else_is_not_touched(tmp_path):
    page = tmp_path / "notes.md"
    page.write_text("# Notes\n", encoding="utf-8")
    with pytest.raises(InitbenchError, match=r"notes\.md: was not made by initbench report"):
        written(tmp_path, [make_record(make_spec(KAIMING))], "notes.md")
    assert page.read_text(encoding="utf-8") == "# Notes\n"
    assert not (tmp_path / "notes").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("RESULTS", r"RESULTS: a Markdown file ends in \.md$"),
        ("folder.md", r"folder\.md: is a folder, not a file$"),
        ("taken.md", r"taken: File exists$"),
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(tmp_path, name, message):
    results = results_of(tmp_path / "runs", [make_record(make_spec(KAIMING))])
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InitbenchError, match=message):
        write_markdown(results, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_spaces_in_the_name_are_written_so_that_images_are_found(tmp_path):
    text = written(tmp_path, [make_record(make_spec(KAIMING))], "my page.md").read_text(encoding="utf-8")
    [name, *_] = re.findall(r"\]\(my%20page/(.*?)\)", text)
    assert (tmp_path / "my page" / name.replace("%3D", "=")).is_file()


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
