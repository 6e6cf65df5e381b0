"""Ledgers that lack what a report is usually made of: each has a page that says so."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from ledgers import DELTA_1, DELTA_2, KAIMING, METAINIT, WRN, cell, make_record, make_spec, write_ledger

from initbench.errors import InitbenchError
from initbench.reporting.report import write_report
from initbench.reporting.source import read_folder


def cells(*pairs, **options):
    """Return the records of cells, each (initializer, errors)."""
    return [record for initializer, errors in pairs for record in cell(errors, initializer, **options)]


def without_probes(records):
    return [replace(record, probes=[], initialization={}) for record in records]


# name → records, what the page says, what it does not.
LEDGERS = {
    "one seed": (
        cells((KAIMING, [0.1]), (DELTA_1, [0.2])),
        [
            "kaiming has the lowest median test error, 10.00",
            "n = 1 seed; an interval takes 3",
            "with 1 seed",
        ],
        ["±\N{NO-BREAK SPACE}", "1 seeds"],
    ),
    "one architecture": (
        cells((KAIMING, [0.1, 0.11, 0.12]), (DELTA_1, [0.51, 0.51, 0.51])),
        # 40 ± t(.975, 2) · 1 / √3 points
        [
            "<b>1</b>comparison<",
            "(95 % interval 37.52 to 42.48 points, n = 3 seeds)",
            "No architecture has results at more than one depth",
        ],
        ["<b>1</b>comparisons"],
    ),
    "one initializer": (
        cells((KAIMING, [0.1, 0.2, 0.3])),
        ["there is nothing to compare it with", "<b>1</b>initializer<", "1 initializer (kaiming) was compared"],
        ["has the lowest"],
    ),
    "all diverged": (
        cells((KAIMING, [None] * 3), (DELTA_1, [None] * 3)),
        [
            "No trial has finished",
            "No initializer has a finite median test error",
            "kaiming: 3 of 3 trials diverged",
            "6 of 6 trials diverged",
        ],
        ["has the lowest", "share the lowest"],
    ),
    "none diverged": (
        cells((KAIMING, [0.1, 0.2, 0.3]), (DELTA_1, [0.1, 0.2, 0.25])),
        ["<b>0</b>diverged", "0 of 6 trials diverged", "share the lowest median"],
        ["trials diverged.</li>", 'class="bad"><b>0'],
    ),
    "ties everywhere": (
        cells(*((initializer, [0.2] * 3) for initializer in (KAIMING, DELTA_1, DELTA_2, METAINIT))),
        ["delta_orthogonal[gain=1], delta_orthogonal[gain=2], kaiming and metainit(delta_orthogonal) share the lowest"],
        ["has the lowest"],
    ),
    "missing probes": (
        without_probes(cells((KAIMING, [0.1, 0.2, 0.3]), (DELTA_1, [0.3, 0.4, 0.5]))),
        ["No trial has a gradient quotient to draw", "No trial has a probe."],
        ["The gradient quotient (Dauphin", "GQ is saturated for"],
    ),
    "one trial": (
        cells((KAIMING, [0.25])),
        ["<b>1</b>finished", "kaiming: median test error 25.00", "nothing to compare", "0 of 1 trials diverged"],
        ["has the lowest"],
    ),
    "no finished trial": (
        [
            make_record(make_spec(initializer, seed=s), status="failed")
            for initializer in (KAIMING, WRN)
            for s in (0, 1)
        ],
        [
            "No trial has finished",
            "No trial has a result",
            "No trial has a curve to draw",
            "No trial has a gradient quotient to draw",
            "4 further trials ended with an error",
            "RuntimeError: lost",
        ],
        ["has the lowest"],
    ),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_a_degenerate_ledger_has_a_readable_report(tmp_path, name):
    records, said, unsaid = LEDGERS[name]
    write_ledger(tmp_path, records)
    text = write_report(tmp_path).read_text(encoding="utf-8")
    page = re.sub(r"<script.*?</script>|<style>.*?</style>|<svg.*?</svg>", "", text, flags=re.DOTALL)
    assert [words for words in said if words not in page] == []
    assert [words for words in unsaid if words in page] == []
    assert not re.search(r"\b(nan|inf|None|NaN|NaT)\b|&lt;NA|\[\]", page)
    for section in (
        "verdicts",
        "comparison",
        "prediction",
        "training",
        "depth",
        "every-trial",
        "conditions",
        "methods",
    ):
        assert page.count(f'<h2 id="{section}">') == 1


def test_a_truncated_record_is_named_and_left_out(tmp_path):
    ledger = write_ledger(tmp_path / "made-up", cells((KAIMING, [0.1, 0.2, 0.3])))
    path = sorted(ledger.trials.glob("*.json"))[1]
    path.write_text(path.read_text(encoding="utf-8")[:200], encoding="utf-8")
    source = read_folder(ledger.folder)
    assert len(source.records) == 2
    [line] = source.skipped
    assert line.startswith(f"made-up/trials/{path.name}: not a trial record (")
    text = write_report(ledger.folder).read_text(encoding="utf-8")
    assert "<b>1 record could not be read</b>" in text
    assert path.name in text
    assert "<b>2</b>finished" in text


def test_a_ledger_of_truncated_records_alone_is_refused_by_name(tmp_path):
    ledger = write_ledger(tmp_path, cells((KAIMING, [0.1])))
    [path] = ledger.trials.iterdir()
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InitbenchError, match=rf"no trial records in .*; 1 cannot be read, such as .*{path.name}"):
        write_report(tmp_path)
    assert not (tmp_path / "report").exists()
