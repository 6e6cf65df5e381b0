"""What a report says, as plain data: every page, HTML or Markdown, is this and a template."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.reporting.answers.cost import cost_answers
from initbench.reporting.answers.initializers import initializer_answers, rank
from initbench.reporting.answers.probe_results import UNSATURATED, measure
from initbench.reporting.answers.probes import association_words, correlation_frame, probe_answers
from initbench.reporting.charts import colours
from initbench.reporting.conditions import conditions, differing, effective
from initbench.reporting.curves import training_curves
from initbench.reporting.depth import depth_curves
from initbench.reporting.figures import curve_figures, depth_figures, quotient_figures
from initbench.reporting.frame import GQ
from initbench.reporting.methods import methods
from initbench.reporting.parts import Answer, Column, Section, Table
from initbench.reporting.trial_table import trial_table
from initbench.reporting.verdicts import verdicts
from initbench.suite.smoke import is_smoke

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord
    from initbench.reporting.source import Source

_MAXIMUM_TRACEBACKS = 50
_DEPTH_COLUMNS = [
    Column("Networks", "text", "family"),
    Column("Initializer", "text", "initializer"),
    Column("Depth", "count", "depth"),
    Column("Seeds", "count", "seeds"),
    Column("Diverged", "count", "diverged"),
    Column("Test error,\nmedian", "outcome", "test_error_median"),
    Column("smallest", "outcome", "test_error_smallest"),
    Column("largest", "outcome", "test_error_largest"),
]


def contents(source: Source, trials: pd.DataFrame, comparison: pd.DataFrame) -> dict[str, Any]:
    """Return what a report says.

    Args:
        source: its records, and what is known of where they come from.
        trials: as from `comparison.comparable_trials`.
        comparison: as from `comparison.compare`.

    Returns:
        In the order of the page: ``smoke`` (whether it is a smoke run's), ``skipped`` and ``notes`` (lines),
        ``statuses`` (counts), ``questions`` (question → its `Answer`), ``groups`` (one per
        comparison: ``name``, ``rows``, ``verdicts``, ``chart`` and ``curves`` as `Figure`, ...), ``colours`` of the
        initializers, ``depths`` (figures), ``parts`` (figures and tables that a section shows after what it always
        has, by the section's name), ``trials`` (the table of all trials), ``conditions``, ``differing``, ``facts``
        that hold for all, ``quotients`` (how each GQ was measured), ``methods`` (the paragraph), ``failures``, and
        ``tables`` (what is written beside the page, beyond the frames given here).
    """
    records = source.records
    by_id = {record.id: record for record in records}
    shared = {field for field, values in _recipe_values(records).items() if len(values) == 1}
    palette = colours(list(trials["initializer"]))
    curves, depths = training_curves(trials, records), depth_curves(trials)
    charts, lines = quotient_figures(trials), curve_figures(curves, palette)
    ranking = rank(trials)
    results = measure(trials, records)
    correlation = correlation_frame(results)
    relations = _relations(correlation)
    groups = []
    for group, table in comparison.groupby("group", sort=False):
        own_trials = trials[trials["group"] == group]
        members = [by_id[i] for i in own_trials["trial_id"]]
        own = {field: values for field, values in _recipe_values(members).items() if field not in shared}
        groups.append(
            {
                "name": group,
                "rows": table.to_dict("records"),
                "verdicts": verdicts(table, own_trials),
                "recipe": _fields(own),
                "parameters": table["parameters"].max(),
                "failed": int(table["failed"].sum()),
                "unpaired": _unpaired(own_trials),
                "undrawn": _undrawn(own_trials),
                "chart": charts.get(str(group)),
                "curves": lines.get(str(group), []),
                "relation": relations.get(str(group), ""),
            }
        )
    failed = trials[trials["status"] == "failed"].to_dict("records")
    quotients = _quotient_conditions(records)
    table = conditions(records)
    sections = {  # in the order of their questions
        "comparison": initializer_answers(trials, ranking, palette, _by_workload(groups)),
        "training": cost_answers(trials, records, palette),
        "prediction": probe_answers(results),
        "depth": Section(parts=_depth_table(depths)),
    }
    return {
        "smoke": any(is_smoke(record.spec) for record in records),
        "skipped": list(source.skipped),
        "notes": list(source.notes),
        "statuses": {status: int((trials["status"] == status).sum()) for status in ("finished", "diverged", "failed")},
        "questions": {q: answers for section in sections.values() for q, answers in section.questions.items()},
        "groups": groups,
        "colours": palette,
        "depths": [figure for figures in depth_figures(depths, palette).values() for figure in figures],
        "parts": {name: section.parts for name, section in sections.items()},
        "trials": trial_table(trials, records),
        "conditions": table,
        "differing": differing(table),
        "facts": _facts(records, shared),
        "quotients": quotients,
        "methods": methods(records, trials, quotients, ranked=not math.isnan(ranking.ranks.pvalue)),
        "failures": [trial | {"error": by_id[trial["trial_id"]].error or {}} for trial in failed[:_MAXIMUM_TRACEBACKS]],
        "failures_left": len(failed[_MAXIMUM_TRACEBACKS:]),
        "tables": {"correlation": correlation, "curves": curves, "conditions": table},
    }


def _by_workload(groups: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Return the verdict of each group, of those alone that compare something where there are any."""
    compared = [group for group in groups if len(group["rows"]) > 1]
    return [Answer(group["name"], group["verdicts"][0]) for group in compared or groups]


def _relations(correlation: pd.DataFrame) -> dict[str, str]:
    """Return for each group what it says of the gradient quotient by itself, saturated values left out."""
    own = correlation[correlation["probe"] == GQ.removeprefix("probe.")].drop_duplicates("group")
    left_out = own["saturated"].where(own["form"] == UNSATURATED, 0)
    rows = zip(own.to_dict("records"), left_out, strict=True)
    return {str(row["group"]): association_words(row, left) for row, left in rows}


def _depth_table(depths: pd.DataFrame) -> list[Table]:
    if not len(depths):
        return []
    return [Table("depths", "Test error by depth", depths, _DEPTH_COLUMNS)]


def _facts(records: Sequence[TrialRecord], shared: set[str]) -> dict[str, str]:
    """Return what holds for the whole report, by name, ready to print."""
    recipe = {field: values for field, values in _recipe_values(records).items() if field in shared}
    datasets = [
        _fields({"": [r.spec["dataset"]["name"]]} | {k: [v] for k, v in r.spec["dataset"]["arguments"].items()})
        for r in records
    ]
    environment: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        for key, value in record.environment.items():
            for name, item in value.items() if isinstance(value, dict) else [(key, value)]:
                if item not in environment[name]:
                    environment[name].append(item)
    return {
        "Seeds": ", ".join(map(str, sorted({record.spec["seed"] for record in records}))),
        "Dataset": "; ".join(sorted(set(datasets))),
        "Recipe": _fields(recipe),
        "Environment": _fields(dict(sorted(environment.items()))),
    }


def _recipe_values(records: Iterable[TrialRecord]) -> dict[str, list[Any]]:
    """Return for each field of the recipe the values that have an effect in some trial."""
    values: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        for field, value in effective(record.spec["recipe"]).items():
            if value not in values[field]:
                values[field].append(value)
    return {field: sorted(found, key=json.dumps) for field, found in values.items() if found}


def _fields(values: Mapping[str, Sequence[Any]]) -> str:
    """Return ``epochs 8 · lr 0.1``; what is off (null, false, 0 or empty) is left out unless it is off in part."""
    shown = {name: found for name, found in values.items() if any(value or value == "" for value in found)}
    return " · ".join(f"{name} {' or '.join(map(_text, found))}".strip() for name, found in shown.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else json.dumps(value, default=str)


def _unpaired(trials: pd.DataFrame) -> bool:
    results = trials[trials["status"] != "failed"]
    return len({tuple(sorted(seeds)) for _, seeds in results.groupby("initializer")["seed"]}) > 1


def _undrawn(trials: pd.DataFrame) -> int:
    """Return how many trials have a result but no place on the chart's logarithmic axis."""
    results = trials[trials["status"] != "failed"]
    return int((~(results[GQ] > 0)).sum()) if GQ in results else len(results)


def _quotient_conditions(records: Sequence[TrialRecord]) -> dict[str, str]:
    """Return under what conditions each form of the gradient quotient was measured."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for probe in record.probes:
            if probe["name"].startswith("gradient_quotient"):
                for key in ("eps", "batch_size", "batches", "data", "mode"):
                    value = probe.get("conditions", {}).get(key, "not recorded")
                    if value not in found[probe["name"]][key]:
                        found[probe["name"]][key].append(value)
    words = {"eps": "ε", "batch_size": "batch size"}
    return {
        name: _fields({words.get(key, key): sorted(values, key=str) for key, values in conditions.items()})
        for name, conditions in sorted(found.items())
    }
