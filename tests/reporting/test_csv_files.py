"""Tables as CSV: what a spreadsheet makes of them, and that ordinary ones are pandas' own."""

import csv
import io

import ledgers
import numpy as np
import pandas as pd
import pytest
from ledgers import KAIMING, quickstart_records, write_ledger

from initbench.reporting.csv_files import write_csv
from initbench.reporting.report import contents_of, write_report
from initbench.reporting.results import Results
from initbench.reporting.source import Source


def written(frame):
    file = io.StringIO()
    write_csv(frame, file)
    return file.getvalue()


def cells(text):
    return [cell for line in csv.reader(io.StringIO(text)) for cell in line]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("@SUM(1+1)", "'@SUM(1+1)"),
        ("+1+1", "'+1+1"),
        ("-2+3", "'-2+3"),
        ("-", "'-"),
        ("\t=1", "'\\t=1"),
        ("\r=1", "'\\r=1"),
        ("-1", "-1"),  # a number as a text
        ("+1.5e-05", "+1.5e-05"),
        ("-inf", "-inf"),
        ("-1.4 points (-4.6 to 1.8), 3 seeds", "-1.4 points (-4.6 to 1.8), 3 seeds"),
        ("-2 +cmd|'/C calc'!A0", "'-2 +cmd|'/C calc'!A0"),
        ("a=b", "a=b"),
        (" =1", " =1"),
        ("a\nb", "a\nb"),
        ("a\x00\x1b[2J\u202e\ud800", r"a\x00\x1b[2J\u202e\ud800"),
    ],
)
def test_no_text_is_a_formula_or_invisible(text, shown):
    with pd.option_context("mode.string_storage", "python"):
        assert cells(written(pd.DataFrame({text: [text, "plain"]}))) == [shown, shown, "plain"]


def test_numbers_and_what_is_missing_stay():
    frame = pd.DataFrame(
        {
            "float": [-1.5, np.nan, -np.inf],
            "int": [-1, 2, 3],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "mixed": pd.Series(["=1", None, -1], dtype=object),
        }
    )
    assert written(frame) == "float,int,flag,mixed\n-1.5,-1,True,'=1\n,2,,\n-inf,3,False,-1\n"
    assert list(frame["mixed"]) == ["=1", None, -1]


def test_columns_of_one_name_stay_apart():
    frame = pd.DataFrame([["=1", "x"], ["y", "=2"]], columns=["a", "a"])
    assert written(frame) == "a,a\n'=1,x\ny,'=2\n"


def test_an_empty_table_has_its_head():
    assert written(pd.DataFrame(columns=["a", "b"])) == "a,b\n"


def test_ordinary_tables_are_byte_for_byte_those_of_pandas():
    contents = contents_of(Results(Source(quickstart_records())))
    tables = [table.frame for analysis in contents.analyses for table in analysis.tables] + [contents.conditions]
    assert len(tables) > 8
    for table in tables:
        assert written(table) == table.to_csv(index=False)


def test_no_cell_of_a_report_begins_a_formula(tmp_path):
    formula = "=HYPERLINK(1)"
    hostile = {"name": formula, "argument": formula}
    records = [*ledgers.cell([0.1, 0.2], hostile), *ledgers.cell([0.3, 0.4], KAIMING)]
    records += [record for seed in range(2) for record in ledgers.cell([0.2], {"name": f"@SUM({seed})"})]
    records[0].spec["suite"] = "-1+1"
    write_ledger(tmp_path, records)
    written = [path for path in write_report(tmp_path).files if path.suffix == ".csv"]
    found = [text for path in written for text in cells(path.read_text(encoding="utf-8"))]
    assert f"'{formula}" in " ".join(found)
    for text in found:
        if text[:1] in set("=+-@"):
            float(text)
