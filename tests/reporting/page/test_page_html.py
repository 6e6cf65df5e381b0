"""The page as its source: what it says, what is escaped, and what a screen reader finds."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from made_page import HOSTILE, FakeFigure, all_states, answer, bolded, contents, heat_map, large, render_html, table

from initbench.comparing.names import Name
from initbench.reporting.heat_map import STATES, HeatCell, HeatColumn, HeatMap, HeatRow
from initbench.reporting.page.contents import OverviewView, in_rows

VOID = {"meta", "link", "br", "input", "img", "hr"}


class Node:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.children = []

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag, **wanted):
        wanted = {key.rstrip("_"): value for key, value in wanted.items()}
        found = []
        for child in self.children:
            if isinstance(child, Node):
                own = child.attributes
                if child.tag == tag and all(
                    value in (own.get(key) or "").split() if key == "class" else own.get(key) == value
                    for key, value in wanted.items()
                ):
                    found.append(child)
                found += child.all(tag, **wanted)
        return found


class Tree(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.root = self.at = Node("", {}, None)
        self.feed(page)
        assert self.at is self.root, f"{self.at.tag} is not closed"

    def handle_starttag(self, tag, attrs):
        node = Node(tag, attrs, self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag, attrs):
        self.at.children.append(Node(tag, attrs, self.at))

    def handle_endtag(self, tag):
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        self.at = self.at.parent

    def handle_data(self, data):
        self.at.children.append(data)


def read(**changes):
    return Tree(render_html(contents(**changes))).root


def with_map(made):
    return {"overview": OverviewView([], made)}


def words(node):
    return " ".join(node.text.split())


def test_no_text_of_a_record_becomes_markup():
    head = HeatColumn(Name(HOSTILE, HOSTILE), HOSTILE, HOSTILE)
    cell = HeatCell("trained", HOSTILE, HOSTILE, 0.5, title=HOSTILE)
    said = bolded(f"{HOSTILE} trains.", (HOSTILE,), subject=HOSTILE)
    figure = FakeFigure("name", HOSTILE, HOSTILE, HOSTILE, {HOSTILE: "#000000"})
    hostile = answer("cost", HOSTILE, (said, said), (table(3, HOSTILE),), (figure,), (HOSTILE,))
    page = render_html(
        contents(
            **dict.fromkeys(("title", "description", "line", "unequal", "differing", "methods"), HOSTILE),
            notices=[HOSTILE],
            overview=OverviewView([said], HeatMap([HeatRow(Name(HOSTILE, HOSTILE), HOSTILE, [cell])], [head], HOSTILE)),
            analyses=[hostile],
            trials={"columns": [{"heading": HOSTILE, "kind": "text", "filter": True}], "rows": [[HOSTILE]]},
            conditions=pd.DataFrame([[HOSTILE] * 4], columns=["section", "condition", "differs", HOSTILE]),
            facts={HOSTILE: HOSTILE},
            failures=[
                {"treatment": HOSTILE, "workload": HOSTILE, "seed": 0, "error": {"type": HOSTILE, "traceback": HOSTILE}}
            ],
            key={HOSTILE: ("#000000", ())},
            files=[HOSTILE],
        )
    )
    assert HOSTILE not in page
    assert len(Tree(page).root.all("script")) == 2  # the data of all trials, and the page's own


@pytest.mark.parametrize("made", [heat_map(), all_states(), large(12, 3), large()])
def test_tables_have_captions_and_headers_with_their_scope(made):
    page = read(**with_map(made))
    tables = page.all("table")
    assert len(tables) == 5  # the map, two of an answer, all trials, conditions
    for found in tables:
        assert found.all("caption")[0].text.strip()
        for cell in found.all("th"):
            assert cell.attributes["scope"] in {"col", "row", "colgroup"}
    shown = page.all("table", class_="heat-map")[0]
    assert len(shown.all("th", scope="row")) == len(made.rows)
    assert len(shown.all("td", class_="cell")) == len(made.cells)


def test_every_drawing_says_what_it_shows_or_is_hidden_from_who_listens():
    drawings = read().all("svg")
    assert drawings
    for drawing in drawings:
        assert drawing.attributes.get("aria-label") or drawing.attributes.get("aria-hidden") == "true"


def test_nothing_is_fetched():
    page = render_html(contents()).replace("http://www.w3.org/2000/svg", "")
    assert "http" not in page
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert not re.search(r"\bsrc=", page)
    for link in re.findall(r'href="([^"]*)"', page):
        assert not re.match(r"\w+:|//", link)


@pytest.mark.parametrize("columns", [7, 14, 28])
def test_states_are_told_apart_by_text_alone(columns):
    small = all_states()
    times = columns // 7
    row = small.rows[0]
    made = HeatMap([HeatRow(row.name, row.label, list(row.cells) * times)], list(small.columns) * times, small.metric)
    cells = [words(cell) for cell in read(**with_map(made)).all("td", class_="cell")][:7]
    assert len(set(cells)) == 7
    for cell, text in zip(row.cells, cells, strict=True):
        assert STATES[cell.state] in text
    assert ", best" in cells[0]
    assert "best" not in "".join(cells[1:])


def test_the_legend_explains_what_occurs_and_nothing_else():
    def legend(made):
        return [words(item) for item in read(**with_map(made)).all("ul", class_="legend")[0].all("li")]

    assert legend(heat_map()) == [
        "low error",
        "high",
        "●best",
        "no better than guessing",
        "loss became infinite",
    ]
    alone = HeatMap([HeatRow(Name("a"), "a", [HeatCell("measured", "1.2 nats")])], [HeatColumn(Name("n"), "n")], "loss")
    assert legend(alone) == []


def test_a_dense_map_shows_numbers_alone_and_keeps_the_rest_for_who_asks():
    made = large(40, 30)
    shown = read(**with_map(made)).all("table", class_="heat-map")[0]
    corner, *heads = shown.all("tr")[0].all("th")
    assert words(corner) == "test error, median of seeds (%)"
    groups = [head for head in heads if head.attributes["scope"] == "colgroup"]
    assert sum(int(group.attributes["colspan"]) for group in groups) == 40
    assert [words(group) for group in groups] == [f"plain-{16 * (i + 1)}" for i in range(10)]
    for cell, node in zip(made.cells, shown.all("td", class_="cell"), strict=True):
        if cell.state == "trained":
            assert node.all("span", class_="value")[0].text == cell.text.split()[0]
            assert node.attributes["title"] == cell.title


def test_a_dense_map_has_a_dash_for_what_was_only_measured():
    columns = [HeatColumn(Name(f"n{i}"), f"n{i}") for i in range(40)]
    cells = [HeatCell("trained", "2.5\N{NO-BREAK SPACE}%"), *[HeatCell("measured", "not trained")] * 39]
    page = read(**with_map(HeatMap([HeatRow(Name("a"), "a", cells)], columns, "test error")))
    shown = page.all("table", class_="heat-map")[0]
    assert words(shown.all("th")[0]) == "test error (%)"
    assert [words(node) for node in shown.all("td", class_="cell")] == ["2.5", *["–not trained"] * 39]
    legend = [words(item) for item in page.all("ul", class_="legend")[0].all("li")]
    assert legend == ["–not trained: measured at initialization"]


def test_colours_follow_the_levels():
    made = heat_map()
    shown = read(**with_map(made)).all("td", class_="cell")
    for cell, node in zip(made.cells, shown, strict=True):
        levels = re.findall(r"\bl(\d+)\b", node.attributes["class"])
        assert levels == ([str(round(20 * cell.level))] if cell.state == "trained" else [])


def test_a_section_is_its_question_its_first_sentence_and_all_else_behind_it():
    page = read()
    for analysis in contents().analyses:
        (section,) = page.all("details", id=analysis.name)
        (summary, *_) = section.all("summary")
        assert summary.parent is section
        assert words(summary.all("h2")[0]) == analysis.question
        assert words(summary).endswith(analysis.sentences[0].text)
        rest = words(section)
        for sentence in analysis.sentences:
            assert rest.count(sentence.text) == 1
    comparison = page.all("details", id="comparison")[0]
    assert [words(subject) for subject in comparison.all("dl", class_="subjects")[0].all("dt")] == [
        "plain-28",
        "WRN-28",
    ]


def test_sentences_have_their_names_in_bold_and_say_what_is_open():
    items = read().all("ul", class_="happened")[0].all("li")
    said = contents().overview.sentences
    assert [words(item) for item in items] == [str(sentence) for sentence in said]
    assert [item.attributes.get("class") == "open" for item in items] == [sentence.is_open for sentence in said]
    assert [tuple(bold.text for bold in item.all("b")) for item in items] == [sentence.bold for sentence in said]


def test_figures_of_one_subject_stand_in_one_row():
    figures = [FakeFigure(name, name, name, subject=subject) for name, subject in ("ax", "by", "cx", "d ")]
    assert [[figure.name for figure in row] for row in in_rows(figures)] == [["a", "c"], ["b"], ["d"]]
    assert in_rows(figures[:2]) == [figures[:2]]  # one measure: side by side


def test_many_subjects_stand_behind_the_first_twelve():
    said = [bolded("One."), *(bolded("It trains.", subject=f"net {i}") for i in range(40))]
    section = read(analyses=[answer(said=said)]).all("details", id="cost")[0]
    (more,) = section.all("details", class_="more")
    assert words(more.all("summary")[0]) == "28 more"
    assert len(more.all("dt")) == 28
    assert len(section.all("dt")) == 40


def test_a_word_is_explained_once_where_it_first_stands():
    page = read()
    links = page.all("a", class_="term")
    assert words(links[0]) == "trains"
    aims = [link.attributes["href"] for link in links]
    assert len(aims) == len(set(aims))
    meanings = {f"#{word.attributes['id']}" for word in page.all("dfn")}
    assert set(aims) <= meanings
    assert {words(word) for word in page.all("dfn")} >= {"tuner", "treatment", "seed", "diverged", "workload"}
    assert "scheme" not in {words(word) for word in page.all("dfn")}  # this report has none
    assert not [link for link in links if link.parent.tag in {"summary", "b", "h2"}]


def test_no_two_parts_have_one_name():
    page = render_html(contents())
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert set(re.findall(r"url\(#([^)]*)\)", page)) <= set(names)


def test_a_long_table_is_cut_and_says_where_the_rest_is():
    section = read().all("details", id="comparison")[0]
    short, long = section.all("table")
    assert len(short.all("tr")) == 1 + 3
    assert len(long.all("tr")) == 1 + 200
    assert "200 more rows are in long.csv." in words(section)


def test_the_legend_of_a_section_has_a_symbol_for_each_line():
    items = read().all("details", id="comparison")[0].all("ul", class_="key")[0].all("li")
    assert [words(item) for item in items] == list(contents().key)
    assert [len(item.all("svg")) for item in items] == [1, 1, 1]


def test_a_failed_trial_is_a_section_and_without_one_there_is_none():
    assert not read().all("details", id="failures")
    failure = {"treatment": "kaiming", "workload": "plain-28", "seed": 1, "error": {"type": "ValueError"}}
    (section,) = read(failures=[failure], failures_left=2).all("details", id="failures")
    assert "3 trials ended with an error and are in no statistic." in words(section)
    assert "no traceback" in words(section)


def test_a_report_of_nothing_is_a_page():
    page = read(
        overview=OverviewView([bolded("No trial has finished.")]),
        analyses=[],
        trials={"columns": [], "rows": []},
        conditions=pd.DataFrame(columns=["section", "condition", "differs"]),
        facts={},
        files=[],
        key={},
    )
    assert not page.all("table", class_="heat-map")
    assert "No trial has finished." in words(page)
    assert "0 trials" in words(page.all("details", id="every-trial")[0])


def test_equal_contents_give_equal_pages():
    assert render_html(contents()) == render_html(contents())
