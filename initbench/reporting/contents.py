"""What a report says, as plain data: every page, HTML or Markdown, is this and a template."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.metric import Metric
from initbench.reporting.answers.cost import cost_answers
from initbench.reporting.answers.probe_results import UNSATURATED, measure, trivial_predictors
from initbench.reporting.answers.probes import association_words, correlation_frame, probe_answers
from initbench.reporting.answers.treatments import rank, treatment_answers
from initbench.reporting.charts import colours
from initbench.reporting.comparison import early_columns, workload_metrics
from initbench.reporting.conditions import conditions, differing, effective
from initbench.reporting.curves import training_curves
from initbench.reporting.depth import depth_curves
from initbench.reporting.figures import curve_figures, depth_figures, quotient_figures
from initbench.reporting.formatting import capitalized
from initbench.reporting.frame import GQ
from initbench.reporting.measurements import left_of_statistics, measurement_tables
from initbench.reporting.methods import methods
from initbench.reporting.metrics import UNKNOWN, described_metrics, outcome_names, trial_metrics
from initbench.reporting.parts import Answer, Column, Section, Table
from initbench.reporting.statistics.wording import Terms
from initbench.reporting.trial_table import trial_table
from initbench.reporting.verdicts import verdicts
from initbench.suite.treatments import treatment_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from initbench.ledger import TrialRecord
    from initbench.reporting.source import Source

_MAXIMUM_TRACEBACKS = 50
_ERROR = ("classification", "test_error")
_MISCLASSIFIED = "is the fraction of test samples that are misclassified after the last epoch, in percent"


def terms_of(compare: Sequence[str], metrics: Mapping[str, Metric]) -> Terms:
    """Return what a report is about.

    Args:
        compare: the factors that make the treatment.
        metrics: of its trials, by name.
    """
    metric = next(iter(metrics.values()), UNKNOWN) if len(metrics) <= 1 else None
    exchanged = "initializer" if "initializer" in compare else compare[0]
    return Terms(metric, treatment_word(compare), exchanged if len(compare) > 1 else "")


def contents(source: Source, trials: pd.DataFrame, comparison: pd.DataFrame) -> dict[str, Any]:
    """Return what a report says.

    Args:
        source: its records, and what is known of where they come from.
        trials: as from `comparison.comparable_trials`.
        comparison: as from `comparison.compare`.

    Returns:
        In the order of the page: ``smoke`` (whether it is a smoke run's), ``skipped`` and ``notes`` (lines),
        ``statuses`` (counts), ``terms``, ``compare``, ``questions`` (question → its `Answer`), ``workloads`` (one per
        comparison: ``name``, ``metric``, ``rows``, ``verdicts``, ``chart`` and ``curves`` as `Figure`, ...),
        ``colours`` of the treatments, ``depths`` (figures), ``parts`` (figures and tables that a section shows after
        what it always has, by the section's name), ``trials`` (the table of all trials), ``conditions``,
        ``differing``, ``facts`` that hold for all, ``quotients`` (how each GQ was measured), ``methods`` (the
        paragraph), ``failures``, and ``tables`` (what is written beside the page, beyond the frames given here).
    """
    records = source.records
    by_id = {record.id: record for record in records}
    shared = {field for field, values in _recipe_values(records).items() if len(values) == 1}
    palette = colours(list(trials["treatment"]))
    metrics = trial_metrics(trials, records)
    terms, metric_of = terms_of(source.compare, metrics), workload_metrics(trials, metrics)
    curves, depths = training_curves(trials, records, metric_of), depth_curves(trials, metric_of)
    charts, lines = quotient_figures(trials, metric_of, terms), curve_figures(curves, palette, metrics)
    ranking = rank(trials)
    results = measure(trials, records, terms)
    correlation = correlation_frame(results, terms)
    relations = _relations(correlation, terms)
    unscalar = measurement_tables(records, trials)
    workloads = []
    for workload, table in comparison.groupby("workload", sort=False):
        own_trials = trials[trials["workload"] == workload]
        members = [by_id[i] for i in own_trials["trial_id"]]
        described = described_metrics(members)  # another task may have another metric of one name
        own = {field: values for field, values in _recipe_values(members).items() if field not in shared}
        workloads.append(
            {
                "name": workload,
                "metric": metric_of[str(workload)],
                "rows": table.to_dict("records"),
                "early": [
                    (name, described.get(name, Metric(name, "higher")))
                    for name in early_columns(own_trials)
                    if any(name in record.metrics for record in members)
                ],
                "verdicts": verdicts(table, own_trials, metric_of[str(workload)], terms),
                "recipe": _fields(own),
                "parameters": table["parameters"].max(),
                "several_sizes": len(set(table["parameters"].dropna())) > 1,
                "failed": int(table["failed"].sum()),
                "unpaired": _unpaired(own_trials),
                "undrawn": _undrawn(own_trials),
                "chart": charts.get(str(workload)),
                "curves": lines.get(str(workload), []),
                "relation": relations.get(str(workload), ""),
            }
        )
    each = trials.drop_duplicates("trial_id")
    failed = each[each["status"] == "failed"].to_dict("records")
    quotients = _quotient_conditions(records)
    table = conditions(records)
    sections = {  # in the order of their questions
        "comparison": treatment_answers(trials, ranking, palette, _by_workload(workloads), metrics, terms),
        "training": cost_answers(trials, records, palette, metric_of, terms),
        "prediction": probe_answers(results, terms, trivial_predictors(trials, records).values()),
        "depth": Section(parts=_depth_table(depths, metrics, terms)),
    }
    return {
        "smoke": _is_smoke(records),
        "skipped": list(source.skipped),
        "notes": list(source.notes),
        "terms": terms,
        "compare": ", ".join(source.compare),
        "left_of_probes": left_of_statistics(unscalar),
        "outcomes": _outcomes(records, metrics),
        "early": sorted(
            {
                (capitalized(metric.title), metric.title.removeprefix("first-epoch "))
                for workload in workloads
                for _, metric in workload["early"]
            }
        ),
        "statuses": {status: int((each["status"] == status).sum()) for status in ("finished", "diverged", "failed")},
        "questions": {q: answers for section in sections.values() for q, answers in section.questions.items()},
        "workloads": workloads,
        "colours": palette,
        "depths": [figure for figures in depth_figures(depths, palette, metrics).values() for figure in figures],
        "parts": {name: section.parts for name, section in sections.items()},
        "trials": trial_table(trials, records, metrics, terms),
        "conditions": table,
        "differing": differing(table),
        "facts": _facts(records, shared),
        "quotients": quotients,
        "methods": methods(records, trials, quotients, metrics, terms, ranked=not math.isnan(ranking.ranks.pvalue)),
        "failures": [trial | {"error": by_id[trial["trial_id"]].error or {}} for trial in failed[:_MAXIMUM_TRACEBACKS]],
        "failures_left": len(failed[_MAXIMUM_TRACEBACKS:]),
        "tables": {"correlation": correlation, "curves": curves, "conditions": table, **unscalar},
    }


def _is_smoke(records: Sequence[TrialRecord]) -> bool:
    """Return whether there are records of a smoke run."""
    named = [record.spec for record in records if record.spec["suite"].endswith("-smoke")]
    if not named:
        return False
    # It loads the registry, which reports can do without.
    from initbench.suite.smoke import is_smoke

    return any(map(is_smoke, named))


def _by_workload(workloads: Sequence[Mapping[str, Any]]) -> list[Answer]:
    """Return the verdict of each workload, of those alone that compare something where there are any."""
    compared = [workload for workload in workloads if len(workload["rows"]) > 1]
    return [Answer(workload["name"], workload["verdicts"][0]) for workload in compared or workloads]


def _outcomes(records: Sequence[TrialRecord], metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """Return each outcome in words, and what it is."""
    tasks = {name: record.task["name"] for record, name in zip(records, outcome_names(records), strict=True) if name}
    return [
        (capitalized(metric.title), _MISCLASSIFIED if (tasks[name], name) == _ERROR else _kind(metric))
        for name, metric in metrics.items()
    ]


def _kind(metric: Metric) -> str:
    best = "" if metric.best is None else f", and {metric.text(metric.best)} is the best"
    return f"is measured after training; {metric.better} is better{best}"


def _relations(correlation: pd.DataFrame, terms: Terms) -> dict[str, str]:
    """Return for each workload what it says of the gradient quotient by itself, saturated values left out."""
    own = correlation[correlation["probe"] == GQ.removeprefix("probe.")].drop_duplicates("workload")
    left_out = own["saturated"].where(own["form"] == UNSATURATED, 0)
    rows = zip(own.to_dict("records"), left_out, strict=True)
    return {str(row["workload"]): association_words(row, terms, left) for row, left in rows}


def _depth_table(depths: pd.DataFrame, metrics: Mapping[str, Metric], terms: Terms) -> list[Table]:
    if not len(depths):
        return []
    outcome = capitalized(terms.outcome)
    columns = [
        Column("Networks", "text", "family"),
        Column(capitalized(terms.treatment), "text", "treatment"),
        Column("Depth", "count", "depth"),
        Column("Seeds", "count", "seeds"),
        Column("Diverged", "count", "diverged"),
        Column(f"{outcome},\nmedian", "outcome", "outcome_median"),
        Column("smallest", "outcome", "outcome_smallest"),
        Column("largest", "outcome", "outcome_largest"),
    ]
    return [Table("depths", f"{outcome} by depth", depths, columns, metrics=metrics)]


def _facts(records: Sequence[TrialRecord], shared: set[str]) -> dict[str, str]:
    """Return what holds for the whole report, by name, ready to print."""
    recipe = {field: values for field, values in _recipe_values(records).items() if field in shared}
    datasets = [
        _fields({"": [r.spec["dataset"]["name"]]} | {k: [v] for k, v in r.spec["dataset"]["arguments"].items()})
        for r in records
    ]
    environment: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        for name, value in record.environment.items():
            if value not in environment[name]:
                environment[name].append(value)
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
    return len({tuple(sorted(seeds)) for _, seeds in results.groupby("treatment")["seed"]}) > 1


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
