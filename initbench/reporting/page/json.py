"""The report as plain data, for other programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from initbench.json_values import json_values
from initbench.reporting.answer import Answer
from initbench.reporting.heat_map import HeatMap
from initbench.reporting.page.contents import Contents
from initbench.reporting.plain_data import plain_data
from initbench.reporting.sentence import Sentence
from initbench.reporting.tables import Table

SCHEMA = 1
"""Increases if a key changes its meaning or is removed, but not for new keys."""


def render_json(contents: Contents) -> str:
    """Return the report as JSON; a number that is not finite is null, with a reason in a field of its own.

    Invisible characters are escaped.
    """
    data = plain_data(json_values(plain(contents)))
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1, default=str) + "\n"


def plain(contents: Contents) -> dict[str, Any]:
    """Return the report as lists, mappings, texts and numbers."""
    heat_map = contents.overview.heat_map
    return {
        "schema": SCHEMA,
        "title": contents.title,
        "question": contents.description,
        "line": contents.line,
        "unequal": contents.unequal,
        "notices": list(contents.notices),
        "compares": contents.terms.treatment,
        "sentences": _sentences(contents.overview.sentences),
        "heat_map": None if heat_map is None else _heat_map(heat_map),
        "names": {} if heat_map is None else _numbered(heat_map),
        "analyses": [_analysis(analysis) for analysis in contents.analyses],
        "trials": contents.trials,
        "conditions": _conditions(contents.conditions),
        "differing": contents.differing,
        "facts": dict(contents.facts),
        "methods": contents.methods,
        "failures": [dict(failure) for failure in contents.failures],
        "failures_left": contents.failures_left,
        "files": list(contents.files),
    }


def _sentences(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    return [{"text": s.text, "subject": s.subject, "is_open": s.is_open} for s in sentences]


def _heat_map(heat_map: HeatMap) -> dict[str, Any]:
    names = ("state", "text", "note", "level", "is_best", "mark", "is_told_apart", "mean", "spread", "title")
    return {
        "metric": heat_map.metric,
        "columns": [
            {
                "short": column.short,
                "detail": column.name.detail,
                "label": column.label,
                "metric": column.metric,
                "resolution": column.resolution,
            }
            for column in heat_map.columns
        ],
        "rows": [
            {
                "short": row.short,
                "detail": row.name.detail,
                "label": row.label,
                "trains": row.trains,
                "cost": row.cost,
                "cells": [{name: getattr(cell, name) for name in names} for cell in row.cells],
            }
            for row in heat_map.rows
        ],
    }


def _numbered(heat_map: HeatMap) -> dict[str, str]:
    """Return the names that sentences number, ``metainit #2``, each with its label."""
    named = (*heat_map.rows, *heat_map.columns)
    return {entry.name.numbered: entry.label for entry in named if entry.name.number}


def _analysis(analysis: Answer) -> dict[str, Any]:
    return {
        "name": analysis.name,
        "question": analysis.question,
        "sentences": _sentences(analysis.sentences),
        "remarks": list(analysis.remarks),
        "tables": [_table(table) for table in analysis.tables if table.is_written],
        "figures": [{"name": f.name, "title": f.title, "alt": f.alt} for f in analysis.figures],
    }


def _table(table: Table) -> dict[str, Any]:
    records = [{str(key): value for key, value in record.items()} for record in table.frame.to_dict("records")]
    return {"name": table.name, "title": table.title, "note": table.note, "records": records}


def _conditions(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the conditions with suites in a mapping of their own, because a suite may have the name of a column."""
    suites = [str(name) for name in frame.columns[3:]]
    return [
        {
            "section": row[0],
            "condition": row[1],
            "differs": bool(row[2]),
            "suites": dict(zip(suites, row[3:], strict=True)),
        }
        for row in frame.itertuples(index=False, name=None)
    ]
