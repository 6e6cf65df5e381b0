"""The tables as LaTeX."""

from __future__ import annotations

import re

from made_page import all_states, answer, contents, diverged, large, table, trained

from initbench.comparing.names import Name
from initbench.reporting.heat_map import HeatCell, HeatColumn, HeatMap, HeatRow
from initbench.reporting.page.contents import OverviewView
from initbench.reporting.page.latex import escaped, render_latex

HOSTILE = r"\input{x}_$#%&~^{}<>|"


def floats(text):
    return re.findall(r"\\begin\{table\}.*?\\end\{table\}", text, re.DOTALL)


def body(table_text):
    """The rows of a table as cells, head and body."""
    inner = re.search(r"\\toprule\n(.*?)\\bottomrule", table_text, re.DOTALL)[1].replace("\\midrule\n", "")
    return [[cell.strip() for cell in re.split(r"(?<!\\)&", line.removesuffix(r" \\"))] for line in inner.splitlines()]


def with_cells(*cells):
    columns = [HeatColumn(Name(f"n{i}"), f"n{i}") for i in range(len(cells))]
    return contents(
        overview=OverviewView([], HeatMap([HeatRow(Name("a"), "a", cells)], columns, "test error, median of seeds")),
        analyses=[],
    )


def check(text):
    """What holds for LaTeX that compiles: braces and environments match, each row has a cell for every column."""
    code = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    depth = 0
    for sign in re.findall(r"(?<!\\)(?:\\\\)*[{}]", code):
        depth += 1 if sign[-1] == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", code)) % 2 == 0
    assert re.findall(r"\\begin\{(\w+)\}", code) == ["table", "tabular"] * len(floats(text))
    for part in floats(text):
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", part)[1]
        assert {len(row) for row in body(part)} == {len(columns)}
        assert all(
            line.endswith(r"\\") for line in re.search(r"\\midrule\n(.*?)\\bottomrule", part, re.DOTALL)[1].splitlines()
        )
    labels = re.findall(r"\\label\{([^}]*)\}", code)
    assert len(labels) == len(set(labels)) == len(floats(text))


def test_the_tables_are_sound():
    text = render_latex(contents())
    check(text)
    assert len(floats(text)) == 3  # medians, means, the first table of the one answer that has any


def test_a_large_map_and_every_state_are_sound():
    check(render_latex(contents(overview=OverviewView([], large(40, 30)))))
    check(render_latex(contents(overview=OverviewView([], all_states()))))


def test_what_latex_would_read_is_escaped():
    assert escaped("50 % of a_b & c") == r"50 \% of a\_b \& c"
    assert escaped("\\") == r"\textbackslash{}"
    assert escaped("2.5\N{NO-BREAK SPACE}± 0.3") == r"2.5~$\pm$ 0.3"
    cell = HeatCell("trained", HOSTILE, HOSTILE)
    made = HeatMap(
        [HeatRow(Name(HOSTILE, HOSTILE), HOSTILE, [cell])], [HeatColumn(Name(HOSTILE, HOSTILE), "")], HOSTILE
    )
    text = render_latex(contents(title=HOSTILE + "\nsecond line", overview=OverviewView([], made)))
    check(text)
    assert r"\input" not in "".join(floats(text))
    assert "second line" not in text.splitlines()


def test_bold_is_only_what_tests_tell_apart_from_all_others():
    told = trained(1.0, 1.0, told=True)
    (medians, means) = floats(render_latex(with_cells(told, trained(2.0, 0.9), trained(3.0, 0.5, mark="worse"))))
    assert body(medians)[1] == ["a", r"\textbf{1.0 \%}", r"2.0 \%$^\dagger$", r"3.0 \%"]
    assert body(means)[1] == ["a", r"\textbf{1.0 $\pm$ 0.4 \%}", r"2.0 $\pm$ 0.4 \%$^\dagger$", r"3.0 $\pm$ 0.4 \%"]
    assert "Bold:" in medians
    (tied, _) = floats(render_latex(with_cells(trained(1.0, 1.0), trained(1.0, 1.0))))
    assert "textbf" not in tied
    assert "Bold" not in tied


def test_a_cell_without_a_mean_has_none():
    alone = HeatCell("trained", "2.0 %", level=0.5, mark="best")
    (_, means) = floats(render_latex(with_cells(trained(1.0, 1.0), alone, diverged())))
    assert body(means)[1][2:] == ["--", "diverged (3 of 3)"]
    assert len(floats(render_latex(with_cells(alone)))) == 1


def test_a_long_table_is_cut_in_a_comment():
    text = render_latex(contents(overview=OverviewView([]), analyses=[answer(shown=(table(100, "long"),))]))
    check(text)
    assert len(body(floats(text)[0])) == 1 + 40
    assert "% 60 more rows are in long.csv." in text.splitlines()
