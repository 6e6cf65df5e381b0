"""The report as Markdown."""

from __future__ import annotations

import re

from made_page import SENTENCES, answer, bolded, contents, heat_map, large, table

from initbench.comparing.names import Name
from initbench.reporting.heat_map import HeatCell, HeatColumn, HeatMap, HeatRow
from initbench.reporting.page.contents import OverviewView
from initbench.reporting.page.markdown import MOST_CHARACTERS, body, escaped, head, render_markdown


def tables(text):
    """Each table as its rows of cells, the rule left out."""
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    return [
        [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
            if "---" not in line[:6]
        ]
        for block in blocks
    ]


def test_it_says_first_what_happened():
    text = render_markdown(contents())
    order = [
        "# quickstart",
        "Which initializations",
        "24 trials:",
        "## What happened",
        "- Only **metainit**",
        "| test error",
    ]
    order += [f"## {analysis.question}" for analysis in contents().analyses]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "- *Not known: an order over networks." in text
    assert text == f"{head(contents())}\n{body(contents())}"


def test_the_map_has_its_states_in_words():
    (shown, *_) = tables(render_markdown(contents()))
    assert shown[0] == [
        *[
            "test error, median of seeds",
            "plain-28 (no skip paths)",
            "WRN-28 (skip paths)",
            "trains",
            "initialization costs",
        ]
    ]
    assert shown[1] == ["metainit (from delta\\_orthogonal)", "● 2.5 %", "● 3.6 %", "2 of 2", "450 steps · 24 s"]
    assert shown[4] == ["delta\\_orthogonal (gain 2)", "● 2.5 %", "diverged (3 of 3)", "1 of 2", "none"]


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    made = HeatMap(
        [HeatRow(Name("a|b"), "a", [HeatCell("trained", "1 | 2")])], [HeatColumn(Name("n|m", "x\ny"), "n")], "loss"
    )
    for shown in tables(render_markdown(contents(overview=OverviewView([], made)))):
        assert len({len(row) for row in shown}) == 1


def test_what_markdown_would_read_is_escaped():
    assert escaped("a_b*c[d]`e`<f>|g~~h&lt;") == r"a\_b\*c\[d\]\`e\`\<f\>\|g\~\~h\&lt;"
    assert escaped("two\nlines") == "two lines"
    for text, expected in {
        "# a": r"\# a",
        "1. a": r"1\. a",
        "- a": r"\- a",
        "---": r"\---",
        "+1.5": "+1.5",
        "2.5 %": "2.5 %",
    }.items():
        assert escaped(text) == expected


def test_images_stand_where_they_have_a_folder_and_nowhere_else():
    assert "![" not in render_markdown(contents())
    text = render_markdown(contents(), "my page")
    figures = [figure for analysis in contents().analyses for figure in analysis.main_figures]
    assert re.findall(r"!\[(.*)\]\((.*)\)", text) == [(f.alt, f"my%20page/{f.name}.svg") for f in figures]


def test_the_main_table_of_an_answer_is_cut_and_says_so():
    text = render_markdown(contents(analyses=[answer(shown=(table(400, "long"), table(3)))]))
    shown = tables(text)[1]
    assert len(shown) == 1 + 30
    assert "370 more rows in long.csv." in text
    assert len(tables(text)) == 2


def test_a_large_report_fits_into_a_comment():
    said = [bolded(f"It trains on {'x' * 80}.", subject=f"{i} {'x' * 80}") for i in range(40)]
    many = [answer(f"a{i}", said=said, shown=(table(1000, "t"),)) for i in range(12)]
    made = contents(overview=OverviewView(SENTENCES, large(40, 30, "x" * 70)), analyses=many)
    text = render_markdown(made)
    assert len(text) <= MOST_CHARACTERS
    assert "more are on the page." in text
    assert text.count("rows in t.csv") == 12


def test_one_subject_more_is_said_to_be_on_the_page():
    said = [bolded("It trains.", subject=f"net{i}") for i in range(13)]
    assert "1 more is on the page." in render_markdown(contents(analyses=[answer("a", said=said)]))


def test_without_a_map_there_is_none():
    assert len(tables(render_markdown(contents(overview=OverviewView(SENTENCES), analyses=[])))) == 0
    assert len(tables(render_markdown(contents(overview=OverviewView([], heat_map()), analyses=[])))) == 1
