"""The page that walks through a report quotes what that report says."""

import re

import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, PLAIN, make_record, make_spec, write_ledger
from pages import DOCS

from initbench.reporting.report import write_report

GUIDE = (DOCS / "reading-a-report.md").read_text("utf-8")
QUOTES = [
    " ".join(line.removeprefix("> ") for line in quote.strip().splitlines())
    for quote in re.findall(r"(?:^>.*\n)+", GUIDE, re.MULTILINE)
]


def plain(text):
    """Return text without Markdown's marks, all white space as single blanks."""
    return " ".join(re.sub(r"\\(?=\W|_)|\*\*", "", text).split())


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quoted_verdict_is_the_reports(quote):
    assert plain(quote) in plain((DOCS / "results" / "fashion_depth.md").read_text("utf-8"))


def test_every_table_of_a_report_is_named(tmp_path):
    """Three initializers in the same order at six depths: Friedman's test rejects, so that no table is missing."""
    records = [
        make_record(make_spec(initializer, PLAIN | {"depth": depth}, seed), 0.1 * place + 0.001 * seed)
        for depth in range(10, 70, 10)
        for place, initializer in enumerate((KAIMING, DELTA_1, DELTA_2), start=1)
        for seed in range(3)
    ]
    records[0].probes.append({"name": "signal", "kind": "curve", "x": [0, 1], "y": [1.0, 2.0], "over": "depth"})
    records[0].probes.append({"name": "norms", "kind": "per_layer", "values": {"weight": 1.0}})
    write_ledger(tmp_path, records)
    written = {path.stem for path in write_report(tmp_path).files if path.suffix == ".csv"}
    assert set(re.findall(r"^\| `(\w+)\.csv`", GUIDE, re.MULTILINE)) == written
