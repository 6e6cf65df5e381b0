"""Contents of reports made up for tests: the quickstart of the drawings, and larger and stranger ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd
from ledgers import ERROR
from markupsafe import escape

from initbench.comparing.names import Name
from initbench.reporting.answer import Answer
from initbench.reporting.charts.legend import Entry
from initbench.reporting.heat_map import HeatCell, HeatColumn, HeatMap, HeatRow, Mark
from initbench.reporting.page.contents import Contents, OverviewView
from initbench.reporting.page.html import html_pieces
from initbench.reporting.sentence import Sentence
from initbench.reporting.tables import Column, Table
from initbench.reporting.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Mapping

QUESTION = "Which initializations train a 28-layer network without normalization, with and without skip connections?"
UNEQUAL = "Conditions differ: gradients clipped at norm 1 on plain-28 only."
LINE = (
    "24 trials: 4 initializers × 2 networks × 3 seeds · digits (1,297 images) · 8 epochs of SGD, rate 0.1 · 3 minutes"
)
HOSTILE = "</script><script>document.title = 'taken'</script>"
KEY = {
    "metainit (from delta_orthogonal)": ("#0072b2", ()),
    "kaiming": ("#d55e00", (6, 3)),
    "delta_orthogonal (gain 1)": ("#009e73", ()),
}
UNTRAINED = HeatCell("untrained", "89.7 %", title="Its median is 89.7 %, as guessing gives.")
CANNOT = HeatCell("incompatible", title="It has no residual branches.")


@dataclass(frozen=True)
class FakeFigure:
    """What a page asks of a figure."""

    name: str
    title: str
    alt: str
    note: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    is_wide: bool = False
    subject: str = ""

    @property
    def legend(self) -> list[Entry]:
        return [Entry(label, colour) for label, colour in self.key.items()]

    @property
    def svg(self) -> str:
        width = 560 if self.is_wide else 330
        colours = list(self.key.values()) or ["#0072b2"]
        lines = "".join(
            f'<path aria-label="{escape(self.title)}" clip-path="url(#clip0)" fill="none" stroke="{colour}" '
            f'stroke-width="2" d="M30 {20 + 25 * i}Q{width / 3} {130 + 10 * i} {width} {150 - 20 * i}"/>'
            for i, colour in enumerate(colours)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(self.alt)}" width="{width}" '
            f'height="200" viewBox="0 0 {width} 200">'
            f'<clipPath id="clip0"><rect width="{width}" height="200"/></clipPath>'
            f'<path d="M30 10V170H{width}" fill="none" stroke="currentColor"/>{lines}'
            f'<text x="40" y="190" font-size="11" fill="currentColor">epoch</text></svg>'
        )


def bolded(text: str, bold: Sequence[str] = (), *, is_open: bool = False, subject: str = "") -> Sentence:
    """Return a sentence with some of its words in bold."""
    pieces = re.split(f"({'|'.join(map(re.escape, bold))})", text) if bold else [text]
    return Sentence(tuple((piece, i % 2 == 1) for i, piece in enumerate(pieces) if piece), is_open, subject)


def answer(
    name: str = "cost",
    question: str = "What does initialization cost?",
    said: Sequence[Sentence] = (bolded("metainit costs 450 steps.", ("metainit",)),),
    shown: Sequence[Table] = (),
    drawn: Sequence[Any] = (),
    left_out: Sequence[str] = (),
) -> Answer:
    return Answer(name, question, said, shown, drawn, left_out)


def trained(percent: float, level: float, *, mark: Mark = "best", note: str = "", told: bool = False) -> HeatCell:
    """Return a cell that trained."""
    return HeatCell(
        "trained",
        f"{percent:.1f} %",
        note,
        level,
        mark,
        f"Median {percent} % over 3 seeds.",
        f"{percent:.1f} ± 0.4 %",
        trains=True,
        is_told_apart=told,
    )


def diverged(note: str = "3 of 3") -> HeatCell:
    return HeatCell("diverged", note=note, title="The loss became infinite.")


def render_html(contents: Contents) -> str:
    """Return the report as HTML."""
    return "".join(html_pieces(contents))


def heat_map() -> HeatMap:
    """The quickstart's."""
    columns = [
        HeatColumn(Name("plain-28", "no skip paths"), "plain[28]"),
        HeatColumn(Name("WRN-28", "skip paths"), "wrn[28]"),
    ]
    rows = [
        (
            "metainit",
            "from delta_orthogonal",
            [trained(2.5, 0.97, told=True), trained(3.6, 0.85)],
            "2 of 2",
            "450 steps · 24 s",
        ),
        ("delta_orthogonal", "gain 1", [UNTRAINED, trained(2.8, 0.94)], "1 of 2", "none"),
        ("kaiming", "", [UNTRAINED, trained(3.1, 0.9)], "1 of 2", "none"),
        ("delta_orthogonal", "gain 2", [trained(2.5, 0.97), diverged()], "1 of 2", "none"),
    ]
    made = [HeatRow(Name(short, detail), f"{short}[{detail}]", *rest) for short, detail, *rest in rows]
    return HeatMap(made, columns, "test error, median of seeds", "low error", "high")


def all_states() -> HeatMap:
    """One treatment with a cell in every state."""
    cells = [
        trained(2.5, 1.0),
        HeatCell("measured", "1.2 nats"),
        UNTRAINED,
        diverged(),
        CANNOT,
        HeatCell("failed", note="3 of 3", title="Every trial failed."),
        HeatCell("missing", title="No trial."),
    ]
    columns = [HeatColumn(Name(f"net-{i}", "detail"), f"net-{i}") for i in range(len(cells))]
    return HeatMap([HeatRow(Name("kaiming", "gain 1"), "kaiming", cells, "1 of 6", "none")], columns, "outcome")


def large(columns: int = 40, rows: int = 30, name: str = "") -> HeatMap:
    """A map of many cells in all states."""
    states = [UNTRAINED, diverged(), CANNOT, HeatCell("failed"), HeatCell("missing")]

    def cell(row: int, column: int) -> HeatCell:
        number = (7 * row + 3 * column) % 23
        if number >= 18:
            return states[number - 18]
        return trained(
            2.5 + 4 * number,
            1 - number / 18,
            mark="best" if number < 3 else "unresolved" if number < 9 else "worse",
            note="2 of 3" if number == 5 else "",
        )

    heads = [
        HeatColumn(
            Name(f"plain-{16 * (i // 4 + 1)}" + name, ["BatchNorm", "none", "LayerNorm", "GroupNorm"][i % 4]),
            f"net {i}" + name,
        )
        for i in range(columns)
    ]
    lines = [
        HeatRow(
            Name(f"initializer_{r}{name}", "gain 2"),
            f"initializer {r}{name}",
            [cell(r, c) for c in range(columns)],
            "4 of 40",
            "32 s",
        )
        for r in range(rows)
    ]
    return HeatMap(lines, heads, "test error, median of seeds", "low error", "high")


SENTENCES = (
    bolded("Only metainit trains both networks: 2.5 % and 3.6 % test error.", ("metainit",)),
    bolded(
        "On plain-28, kaiming and delta_orthogonal (gain 1) do not train: 89.7 %, as guessing gives.", ("plain-28",)
    ),
    bolded(
        "On WRN-28, delta_orthogonal (gain 2) diverges at all 3 seeds; the other three are too close to order.",
        ("WRN-28",),
    ),
    bolded("metainit’s search costs as much as 450 training steps; training itself has 168."),
    bolded("Not known: an order over networks. Two are too few; 6 would tell a difference of one rank.", is_open=True),
)


def table(rows: int = 3, name: str = "pairs") -> Table:
    """A table with an interval, a diverged value and a missing one."""
    values = [0.872, math.inf, math.nan] + [0.25] * (rows - 3)
    frame = pd.DataFrame(
        {
            "treatment": [["metainit", "kaiming", "delta_orthogonal (gain 1)"][i % 3] for i in range(rows)],
            "outcome": values[:rows],
            "low": ([0.842, math.nan, math.nan] + [0.2] * rows)[:rows],
            "high": ([0.902, math.nan, math.nan] + [0.3] * rows)[:rows],
        }
    )
    columns = [
        Column("Treatment", "text", "treatment"),
        Column("Test error,\nmedian", "outcome", "outcome", "low", "high"),
    ]
    return Table(name, "Pairs on plain-28", frame, columns, "Adjusted for all pairs.", {ERROR.name: ERROR})


def analyses() -> list[Answer]:
    """Four answers: one with all that a section can have."""
    colours = {label: colour for label, (colour, _) in KEY.items()}
    full = answer(
        "comparison",
        "Which initializer is better?",
        (
            bolded("metainit beats delta_orthogonal (gain 1) on plain-28 by 87.2 points (84.2 to 90.2)."),
            bolded("No order over both networks can be told; a tuner is a treatment too.", is_open=True),
            bolded("metainit leads kaiming by 87.0 points.", ("metainit",), subject="plain-28"),
            bolded("Nothing can be told apart.", is_open=True, subject="WRN-28"),
        ),
        (table(), table(400, "long")),
        (
            FakeFigure("forest", "Differences", "metainit is 87 points lower.", "With 95 % intervals.", colours),
            FakeFigure("ranks", "Ranks", "metainit has the best mean rank.", key=colours),
            FakeFigure("wide", "Profile by layer", "Signals vanish in kaiming.", is_wide=True),
        ),
        ("Fixup did not run on plain-28 and is left out.",),
    )
    return [
        full,
        answer(
            "prediction",
            "Does the gradient quotient predict the error?",
            (bolded("Cannot be told from 4 initializers; it takes 5.", is_open=True),),
        ),
        answer(said=(bolded("metainit: 450 steps, 2.7 times the training. The others: nothing."),)),
        answer("curves", "How did training go?", (bolded("All that trained did so within 3 epochs."),)),
    ]


def trial_table(rows: int = 24) -> dict[str, Any]:
    """Plain data of all trials."""
    percent = {"scale": 100, "unit": "%", "digits": 2}
    columns = [
        {"heading": "Initializer", "kind": "text", "filter": True},
        {"heading": "Seed", "kind": "count", "filter": False},
        {"heading": "Status", "kind": "text", "filter": True},
        {"heading": "Test error", "kind": percent, "filter": False},
    ]
    names = list(KEY)
    made = [
        [names[i % 3], i % 3, "diverged" if i % 7 == 6 else "finished", None if i % 7 == 6 else 0.02 + 0.01 * i]
        for i in range(rows)
    ]
    return {"columns": columns, "rows": made}


def contents(**changes: Any) -> Contents:
    """Return the quickstart's contents.

    Args:
        changes: fields that are otherwise.
    """
    conditions = pd.DataFrame(
        [["data", "dataset", False, "digits"], ["recipe", "lr", False, "0.1"]],
        columns=["section", "condition", "differs", "quickstart"],
    )
    values: dict[str, Any] = {
        "title": "quickstart",
        "description": QUESTION,
        "line": LINE,
        "unequal": UNEQUAL,
        "notices": (),
        "overview": OverviewView(SENTENCES, heat_map()),
        "analyses": analyses(),
        "trials": trial_table(),
        "conditions": conditions,
        "differing": "",
        "facts": {"Seeds": "0, 1, 2", "Dataset": "digits", "Recipe": "epochs 8 · lr 0.1"},
        "methods": "4 initializers were compared on 2 architectures with 3 seeds each.",
        "failures": (),
        "failures_left": 0,
        "terms": Terms(ERROR),
        "key": KEY,
        "files": ("results.csv", "comparison.csv", "pairs.csv"),
    }
    return Contents(**(values | changes))
