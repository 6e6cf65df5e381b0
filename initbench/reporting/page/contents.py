"""What a report says, as plain objects that every format renders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from initbench.comparing.labels import with_contents
from initbench.ledger import TrialRecord
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.conditions import conditions, different_values, differing, effective, fields_text
from initbench.reporting.facts_line import facts_line
from initbench.reporting.heat_map import HeatMap
from initbench.reporting.notices import notices
from initbench.reporting.page.methods import methods
from initbench.reporting.page.trial_table import trial_table
from initbench.reporting.page.unequal_conditions import unequal_conditions
from initbench.reporting.results import Results
from initbench.reporting.sentence import Sentence
from initbench.reporting.sharing import distinct
from initbench.reporting.source import Source
from initbench.reporting.tables import Table
from initbench.reporting.terms import Terms

_MOST_TRACEBACKS = 50


@dataclass(frozen=True)
class OverviewView:
    """The first screen: at most five sentences, and the map of every treatment on every workload, if there is one."""

    sentences: Sequence[Sentence]
    heat_map: HeatMap | None = None


@dataclass(frozen=True)
class Contents:
    """What a report says.

    Attributes:
        title: its heading.
        description: the suite's question, may be empty.
        line: the facts in one line: how many trials, of what, on which data, by which recipe, and how long.
        unequal: one sentence on conditions that differ between networks or treatments, empty if none do.
        notices: warnings: a smoke run, records that could not be read, ledgers that were joined.
        overview: the first screen.
        analyses: one section each.
        trials: the table of all trials as plain data, ``columns`` (``heading``, ``kind``, ``filter``) and ``rows``.
        conditions: one row per condition: section, condition, whether suites differ in it, and a text for each suite.
        differing: one sentence on the differences between suites, empty if there are none.
        facts: facts about all trials, by name.
        methods: the paragraph for a paper.
        failures: failed trials: the columns of `Results.trials`, with display texts of ``treatment`` and ``workload``,
            and ``error`` (``type``, ``message``, ``traceback``).
        failures_left: the number of failed trials beyond these.
        terms: the words for what is compared.
        key: the display texts of the treatments, in the order of legends.
        files: the names of the files beside the page, beginning with ``results.csv``.
    """

    title: str
    description: str
    line: str
    unequal: str
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
    """Return sentences by subject, in order of first appearance; those about everything have the subject ``""``."""
    grouped: dict[str, list[Sentence]] = {"": []}
    for sentence in sentences:
        grouped.setdefault(sentence.subject, []).append(sentence)
    return {subject: said for subject, said in grouped.items() if said}


def in_rows(figures: Sequence[Figure]) -> list[list[Figure]]:
    """Return figures in rows: one for each subject if a subject has several, else all in one."""
    rows: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures:
        rows[figure.subject].append(figure)
    is_grid = any(subject and len(row) > 1 for subject, row in rows.items())
    return list(rows.values()) if is_grid else [list(figures)]


def head_of(table: Table, rows: int) -> tuple[list[list[str]], int]:
    """Return the cells of a table's first rows, as texts, and the number of other rows."""
    left = len(table.frame) - rows
    return (table.cells, 0) if left <= 0 else (replace(table, frame=table.frame.head(rows)).cells, left)


def collect(
    results: Results,
    overview: Answer,
    analyses: Sequence[Answer],
    title: str | None = None,
    description: str | None = None,
) -> Contents:
    """Return the contents of a report; by default its title is the suites' names, and its question theirs."""
    each, names = results.trials.drop_duplicates("trial_id"), results.names
    failed = each[each["status"] == "failed"]
    failures = [
        {
            **{str(column): value for column, value in trial.items()},
            "treatment": names.treatments[trial["treatment"]].text,
            "workload": names.workloads[trial["workload"]].text,
            "error": results.by_id[trial["trial_id"]].error or {},
        }
        for trial in failed.head(_MOST_TRACEBACKS).to_dict("records")
    ]
    quotients = _quotient_conditions(results.records)
    table = conditions(results.records)
    written = [table.name for analysis in analyses for table in analysis.tables if table.is_written]
    return Contents(
        title=", ".join(sorted(set(results.frame["suite"]))) if title is None else title,
        description=_description(results.source) if description is None else description,
        line=facts_line(results),
        unequal=unequal_conditions(results),
        notices=notices(results),
        overview=OverviewView(overview.sentences, overview.facts.map),
        analyses=analyses,
        trials=trial_table(results),
        conditions=table,
        differing=differing(table),
        facts=_facts(results) | {f"Measured: {name}": text for name, text in quotients.items()},
        methods=methods(results, quotients),
        failures=failures,
        failures_left=len(failed) - len(failures),
        terms=results.terms,
        key=list(results.palette),
        files=[f"{name}.csv" for name in ("results", *dict.fromkeys(written), "conditions")],
    )


def _description(source: Source) -> str:
    """Return the suites' questions, each after the suite's name if there are several."""
    # If all trials of a suite are in another suite, too, it has a description, but no record with its name.
    suites = {record.spec["suite"] for record in source.records} | set(source.descriptions)
    if len(suites) == 1:
        return "".join(source.descriptions.values())
    return "\n".join(f"{name}: {text}" for name, text in sorted(source.descriptions.items()))


def _facts(results: Results) -> dict[str, str]:
    """Return facts about the whole report by name; a name without facts has an empty text."""
    records = results.records
    facts = {} if results.terms.treatment == "initializer" else {"Compared": ", ".join(results.source.compare)}
    datasets = {
        fields_text({"": [dataset["name"]]} | {name: [value] for name, value in dataset["arguments"].items()})
        for dataset in with_contents(distinct(record.spec["dataset"] for record in records))
    }
    recipe = different_values(map(effective, distinct(record.spec["recipe"] for record in records)))
    environment = different_values(distinct(record.environment for record in records))
    return facts | {
        "Seeds": ", ".join(map(str, sorted({record.spec["seed"] for record in records}))),
        "Dataset": "; ".join(sorted(datasets)),
        "Recipe": fields_text({name: values for name, values in recipe.items() if len(values) == 1}),
        "Environment": fields_text(dict(sorted(environment.items()))),
    }


def _quotient_conditions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return the conditions of the measurement for each form of the gradient quotient."""
    words = {"eps": "ε", "batch_size": "batch size", "batches": "batches", "data": "data", "mode": "mode"}
    measured: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {word: [] for word in words.values()})
    for probe in (probe for record in records for probe in record.probes):
        if probe["name"].startswith("gradient_quotient"):
            for key, word in words.items():
                value = probe.get("conditions", {}).get(key, "not recorded")
                if value not in measured[probe["name"]][word]:
                    measured[probe["name"]][word].append(value)
    return {
        name: fields_text({word: sorted(values, key=str) for word, values in of_name.items()})
        for name, of_name in sorted(measured.items())
    }
