"""What a report says, before it is set as a page of any kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from initbench.reporting.answer import Answer
    from initbench.reporting.heat_map import HeatMap
    from initbench.reporting.sentence import Sentence
    from initbench.reporting.tables import Table
    from initbench.reporting.terms import Terms


@dataclass(frozen=True)
class OverviewView:
    """What stands on the first screen.

    Attributes:
        sentences: what happened, at most five.
        heat_map: every treatment on every workload; None where nothing can be shown.
    """

    sentences: Sequence[Sentence]
    heat_map: HeatMap | None = None


@dataclass(frozen=True)
class Contents:
    """What a report says.

    Attributes:
        title: its heading.
        description: the suite's question, may be empty.
        line: the facts in one line: how many trials, of what, on what data, by which recipe, how long.
        notices: what a reader is warned of: a smoke run, records that could not be read, ledgers that were joined.
        overview: the first screen.
        analyses: one section each.
        trials: the table of all trials as plain data, ``columns`` (``heading``, ``kind``, ``filter``) and ``rows``.
        conditions: one row per condition: section, condition, whether suites differ in it, and a text for each suite.
        differing: one sentence on what differs between suites, empty where nothing does.
        facts: what holds for all trials, by name.
        methods: the paragraph for a paper.
        failures: failed trials: ``treatment``, ``workload``, ``seed`` and ``error`` (``type``, ``message``,
            ``traceback``).
        failures_left: how many more there are.
        terms: the words for what is compared.
        key: the display texts of the treatments, in the order in which legends have them.
        files: the names of the files beside the page, ``results.csv`` first.
    """

    title: str
    description: str
    line: str
    notices: Sequence[str]
    overview: OverviewView
    analyses: Sequence[Answer]
    trials: Mapping[str, Any]
    conditions: pd.DataFrame
    differing: str
    facts: Mapping[str, str]
    methods: str
    failures: Sequence[Mapping[str, Any]]
    failures_left: int
    terms: Terms
    key: Sequence[str]
    files: Sequence[str]


def by_subject(sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    """Return sentences by what they are about, in the order in which a subject is first met; those about all first."""
    found: dict[str, list[Sentence]] = {"": []}
    for sentence in sentences:
        found.setdefault(sentence.subject, []).append(sentence)
    return {subject: own for subject, own in found.items() if own}


def head_of(table: Table, rows: int) -> tuple[list[list[str]], int]:
    """Return the cells of a table's first rows, as texts, and how many rows are left.

    Args:
        table: any.
        rows: at most so many.
    """
    left = len(table.frame) - rows
    return (table.cells, 0) if left <= 0 else (replace(table, frame=table.frame.head(rows)).cells, left)
