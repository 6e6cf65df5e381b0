"""The report as JSON."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
from made_page import all_states, answer, contents, table

from initbench.comparing.names import Name
from initbench.reporting.heat_map import HeatColumn, HeatMap, HeatRow
from initbench.reporting.page.contents import OverviewView
from initbench.reporting.page.json import SCHEMA, render_json
from initbench.reporting.tables import Table


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_it_holds_what_the_page_says():
    data, given = strict(render_json(contents())), contents()
    assert data["schema"] == SCHEMA
    assert [(s["text"], s["subject"], s["is_open"]) for s in data["sentences"]] == [
        (s.text, s.subject, s.is_open) for s in given.overview.sentences
    ]
    assert [a["question"] for a in data["analyses"]] == [a.question for a in given.analyses]
    assert [s["subject"] for s in data["analyses"][0]["sentences"]] == ["", "", "plain-28", "WRN-28"]
    assert [c["text"] for row in data["heat_map"]["rows"] for c in row["cells"]] == [
        cell.text for cell in given.overview.heat_map.cells
    ]
    assert data["trials"] == given.trials
    assert data["conditions"][1] == {
        "section": "recipe",
        "condition": "lr",
        "differs": False,
        "suites": {"quickstart": "0.1"},
    }


def test_numbers_that_json_lacks_are_null_with_their_reason():
    data = strict(render_json(contents(analyses=[answer(shown=(table(),))])))
    known, infinite, missing = data["analyses"][0]["tables"][0]["records"]
    assert known == {"treatment": "metainit", "outcome": 0.872, "low": 0.842, "high": 0.902}
    assert (infinite["outcome"], infinite["outcome_reason"]) == (None, "inf")
    assert (missing["outcome"], missing["outcome_reason"]) == (None, "nan")


def test_a_table_is_whole_whatever_its_values_are():
    frame = pd.DataFrame({"n": np.arange(500), "flag": np.arange(500) % 2 == 0, "x": np.float32(0.5), "t": pd.NA})
    shown = Table("odd", "Odd", frame)
    records = strict(render_json(contents(analyses=[answer(shown=(shown,))])))["analyses"][0]["tables"][0]["records"]
    assert len(records) == 500
    assert records[3]["n"] == 3
    assert records[3]["flag"] is False
    assert records[3]["x"] == 0.5


def test_cells_without_a_level_have_null():
    made = all_states()
    data = strict(render_json(contents(overview=OverviewView([], made))))
    cells = data["heat_map"]["rows"][0]["cells"]
    assert [cell["state"] for cell in cells] == [cell.state for cell in made.cells]
    assert [cell["level"] is None for cell in cells] == [math.isnan(cell.level) for cell in made.cells]


def test_a_report_without_a_map_has_null():
    assert strict(render_json(contents(overview=OverviewView([]))))["heat_map"] is None


def test_a_name_that_sentences_number_is_resolved():
    columns = [HeatColumn(Name("plain-28"), "plain[depth=28]")]
    rows = [
        HeatRow(Name("metainit", f"steps {steps}, from delta", number), f"metainit[steps={steps}](delta)", [])
        for number, steps in ((1, 50), (2, 200))
    ]
    data = strict(render_json(contents(overview=OverviewView([], HeatMap(rows, columns)))))
    assert data["names"] == {"metainit #1": "metainit[steps=50](delta)", "metainit #2": "metainit[steps=200](delta)"}
    assert [row["detail"] for row in data["heat_map"]["rows"]] == ["steps 50, from delta", "steps 200, from delta"]
