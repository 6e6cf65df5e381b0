"""The page that walks through a report: its quotations, the files that it names and its example are the code's."""

import importlib
import re
from dataclasses import replace

import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, PLAIN, make_record, make_spec, write_ledger
from pages import DOCS, blocks
from tuned import tuned_records

import initbench.reporting
from initbench.ledger import Ledger
from initbench.reporting.report import write_report
from initbench.suite.spec import SCHEMA

PAGE = DOCS / "reading-a-report.md"
GUIDE = PAGE.read_text("utf-8")
QUOTES = [
    " ".join(line.removeprefix(">").strip() for line in quote.strip().splitlines())
    for quote in re.findall(r"(?:^>.*\n)+", GUIDE, re.MULTILINE)
]


def plain(text):
    """Return text without Markdown's marks, all white space as single blanks."""
    return " ".join(re.sub(r"\\(?=\W|_)|\*\*", "", text).split())


def every_kind(folder):
    """Write a ledger whose report lacks no table, and return its folder.

    Four initializers in the same order at six depths, so that Friedman's test rejects; one of them tunes another, and
    one diverged.
    """
    records = [
        make_record(make_spec(initializer, PLAIN | {"depth": depth}, seed), 0.1 * place + 0.001 * seed)
        for depth in range(10, 70, 10)
        for place, initializer in enumerate((METAINIT, KAIMING, DELTA_1, DELTA_2), start=1)
        for seed in range(3)
    ]
    records[-1] = make_record(make_spec(DELTA_2, PLAIN | {"depth": 60}, 2), None, status="diverged")
    records[0] = replace(
        records[0],
        initialization={
            "history": [{"step": step, "gradient_quotient": value} for step, value in enumerate((0.9, 0.4))],
            "tensors": {"weight": [{"event": "scaled", "factor": 2.0}]},
        },
    )
    records[0].probes.append({"name": "signal", "kind": "curve", "x": [0, 1], "y": [1.0, 2.0], "over": "depth"})
    records[0].probes.append({"name": "norms", "kind": "per_layer", "values": {"weight": 1.0}})
    for record in records:
        values = {"weight": 1.0 + record.spec["seed"]}
        entry = {"kind": "per_layer", "values": values, "conditions": {"steps": 2}}
        record.probes.extend(entry | {"name": f"coordinates.{part}"} for part in ("activation", "change"))
    write_ledger(folder, records)
    of = {"initializer": "kaiming", "depth": 10}
    claim = {"id": "one", "claim": "It does.", "source": "us", "criteria": [{"judge": "trains", "of": of}]}
    published = {"source": "us", "numbers": [{"what": "an error", "where": "Table 1", "value": 0.1, "of": of}]}
    resolved = {"schema": SCHEMA, "name": "made-up", "compare": ["initializer"], "seeds": 3}
    Ledger(folder).write_suite("name: made-up\n", resolved | {"claims": [claim], "published": published})
    return folder


def tuned(folder):
    """Write a ledger of a tuned suite whose report lacks none of the tables of such, and return its folder."""
    records = [
        record
        for depth in (8, 16)
        for record in tuned_records(
            lambda at: 0.1 + 0.01 * at.seed + 0.1 * at.rate, ["net", "other"], ["a", "b"], sizes={"depth": depth}
        )
    ]
    write_ledger(folder, records)
    return folder


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quotation_is_the_reports(quote):
    assert plain(quote) in plain((DOCS / "results" / "fashion_depth.md").read_text("utf-8"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of two suites that together have all that a report has."""
    folder = tmp_path_factory.mktemp("reports")
    return [write_report(made).page for made in (every_kind(folder / "every"), tuned(folder / "tuned"))]


def test_every_table_of_a_report_is_named(pages):
    written = {path.stem for page in pages for path in page.parent.glob("*.csv")}
    assert set(re.findall(r"^\| `(\w+)\.csv`", GUIDE, re.MULTILINE)) == written


def test_every_question_has_a_place(pages):
    """As a heading of its own, or in bold among those that remain."""
    page = "".join(page.read_text("utf-8") for page in pages)
    questions = re.findall(r"<summary><h2>([^<]+)</h2>", page)
    said = {*re.findall(r"^### (.+)$", GUIDE, re.MULTILINE), *re.findall(r"^- \*\*([^*]+)\*\*", GUIDE, re.MULTILINE)}
    assert {question for question in questions if question.endswith("?")} <= said
    assert "How to read this" in questions
    assert "*How to read this*" in GUIDE


def test_the_example_for_a_notebook_draws_and_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    every_kind(tmp_path / "runs" / "fashion-depth")
    [example] = [block.text for block in blocks(PAGE) if block.language == "python"]
    names = {}
    exec(example, names)  # noqa: S102  # as a reader would
    assert capsys.readouterr().out.splitlines() == [str(sentence) for sentence in names["better"].sentences]
    assert (tmp_path / "ranks.pdf").read_bytes().startswith(b"%PDF")
    assert {"trial_id", "outcome"} <= set(names["results"].trials)
    assert {"treatment", "workload", "state"} <= set(names["results"].cells)


@pytest.mark.parametrize("name", initbench.reporting.__all__)
def test_a_public_name_of_reporting_is_a_function_with_a_place_in_the_reference(name):
    """Also once every module is imported, whatever the modules are called."""
    found = getattr(initbench.reporting, name)
    assert callable(found)


def test_the_reference_has_every_question_of_the_list(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "scripts")
    reference = importlib.import_module("reference_hook").on_page_markdown((DOCS / "reference.md").read_text("utf-8"))
    documented = re.findall(r"^::: initbench\.reporting\.[\w.]*?(\w+)$", reference, re.MULTILINE)
    assert set(initbench.reporting.__all__) <= set(documented)
