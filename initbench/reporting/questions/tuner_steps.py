"""How does a measurement at initialization change as a tuner takes more steps?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.names import Name, Names, label_of, short_names
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import value_panel
from initbench.reporting.charts.style import colours
from initbench.reporting.file_names import file_names
from initbench.reporting.quantities import plain_number, quantity_words, short_quantities
from initbench.reporting.questions.probe_results import probe_columns
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import table_of
from initbench.reporting.tuned import base_of
from initbench.statistics.cells import spread

_ARGUMENTS = ("steps", "iterations")  # of tuners
_COLUMNS = ["probe", "workload", "treatment", "steps", "seeds", "value_median", "value_smallest", "value_largest"]


def tuner_steps(results: Results | str | Path, *, probe: str = "", workload: str = "") -> Answer | None:
    """Return how measurements change with a tuner's steps; None if no tuner ran with several numbers of steps.

    Steps are the argument ``steps`` or ``iterations`` of an initializer. The facts have one row for each probe,
    workload, tuner and number of steps: medians over the seeds with the smallest and the largest. ``treatment`` is the
    tuner's label without its number of steps; 0 steps are the treatment that it starts from, if the suite runs that.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: one alone, that measured a single number; all such by default.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such probe or workload.
    """
    results = as_results(results)
    columns = probe_columns(results.trials)
    if probe:
        known = {column.removeprefix("probe."): Name(column.removeprefix("probe.")) for column in columns}
        columns = [f"probe.{label_of(probe, known, 'probe')}"]
    workloads = list(results.trials_on)
    if workload:
        workloads = [label_of(workload, results.names.workloads, "workload")]
    rows = [row for label in workloads for row in _rows(results, label, columns)]
    if not rows:
        return None
    facts = pd.DataFrame(rows, columns=_COLUMNS)
    # The tuners' names do not have their numbers of steps.
    names = replace(results.names, treatments=short_names(results.labels, facts["treatment"], []).treatments)
    sentences = [_sentence(group, names) for _, group in facts.groupby(_COLUMNS[:3], sort=False)]
    table = table_of(results, "tuner_steps", "By the tuner’s steps", facts, " ".join(_COLUMNS))
    table = replace(table, names=names)
    figures = list(_figures(facts, names, sentences, results))
    return Answer("tuner_steps", "What changes as a tuner takes more steps?", sentences, [table], figures, facts=facts)


def _sentence(rows: pd.DataFrame, names: Names) -> Sentence:
    """Return a measurement with the fewest and with the most steps of a tuner on a workload."""
    first, last = rows.sort_values("steps").iloc[[0, -1]].to_dict("records")
    return say(
        f"On {{where!b}}, the {{what}} is {{first}} after {first['steps']:,.0f} and {{last}} after "
        f"{last['steps']:,.0f} steps of {{who!b}}.",
        where=names.workload(first["workload"]),
        who=names.treatment(first["treatment"]),
        what=quantity_words(first["probe"]),
        first=plain_number(first["value_median"]),
        last=plain_number(last["value_median"]),
        subject=first["probe"],
    )


def _figures(facts: pd.DataFrame, names: Names, sentences: Sequence[Sentence], results: Results) -> Iterator[Figure]:
    """Yield each probe by the tuner's steps, on each workload."""
    texts = {label: name.spelled_out for label, name in names.treatments.items()}
    quantities = short_quantities(name.removeprefix("probe.") for name in probe_columns(results.trials))
    palette = colours(texts.values())
    for probe, of_probe in facts.groupby("probe", sort=False):
        what = quantities[str(probe)]
        files = file_names(list(dict.fromkeys(map(str, of_probe["workload"]))), f"steps-{probe}-")
        for workload, rows in of_probe.groupby("workload", sort=False):
            shown = rows.assign(treatment=rows["treatment"].map(texts))
            panel = value_panel(shown, "steps", "steps of the tuner", what, palette, beside=of_probe)
            if panel is not None:
                where = names.workload(str(workload))
                title = f"{capitalized(what)} by the tuner’s steps: {where}"
                words = [str(sentence) for sentence in sentences if sentence.subject == probe]
                alt = " ".join([f"{title}. Medians over the seeds.", *words])
                yield Figure(files[str(workload)], title, alt, panel, subject=where)


def _rows(results: Results, workload: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one workload, of tuners that have several numbers of steps there."""
    trials = results.trials_on[workload]
    tuners: dict[str, dict[int, str]] = {}  # tuner → steps → the treatment that took so many
    for row in trials.drop_duplicates("treatment").to_dict("records"):
        label, record = str(row["treatment"]), results.by_id[row["trial_id"]]
        arguments = record.spec["initializer"]["arguments"]
        steps = next((arguments[name] for name in _ARGUMENTS if name in arguments), None)
        key = results.labels.treatments[label]
        if steps is not None and "initializer" in key:
            tuner = results.labels.treatment(key.without(*(f"initializer.{name}" for name in _ARGUMENTS)))
            labels = tuners.setdefault(tuner, {})
            labels[int(steps)] = label
            if base := base_of((workload, label), record, results):
                labels[0] = base
    for column in columns:
        for tuner, labels in tuners.items():
            if len(set(labels) - {0}) < 2:
                continue
            for steps, label in sorted(labels.items()):
                values = trials.loc[trials["treatment"] == label, column].dropna()
                summary = spread(values.astype(float))
                if not math.isnan(summary.median):
                    ends = {f"value_{end}": value for end, value in summary._asdict().items()}
                    same = {"probe": column.removeprefix("probe."), "workload": workload, "treatment": tuner}
                    yield same | {"steps": steps, "seeds": len(values)} | ends
