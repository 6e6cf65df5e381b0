"""What happened on each workload: its treatments from best to worst, with all their numbers."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, natural
from initbench.comparing.metrics import described_metrics
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.columns import Column
from initbench.reporting.comparison_sentences import pair_on_workload
from initbench.reporting.conditions import different_values, effective, fields_text
from initbench.reporting.frame import GQ
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.sharing import distinct
from initbench.reporting.sizes import outcome_words, value_words
from initbench.reporting.tables import Table, table_of
from initbench.reporting.trials import early_columns
from initbench.statistics.cost import on_one_device
from initbench.statistics.intervals import mean_estimate, wilson_estimate
from initbench.statistics.power import seeds_to_find
from initbench.statistics.verdicts import Verdict, WorkloadOrder, workload_order

Row = Mapping[Hashable, Any]
_SECONDS = "initialization_seconds"
_MEASURED = [GQ, f"{GQ}.saturated", _SECONDS]
_COLUMNS = [
    *("workload", "treatment", "rank", "seeds", "diverged", "failed", "outcome_median", "outcome_mean"),
    *("outcome_interval", "gradient_quotient_median", "gradient_quotient_saturated", "initialization_seconds_mean"),
    *("parameters", "metric", "state", "trained", "chance", "train_rate", "train_rate_low", "train_rate_high"),
]
_STATES = {"untrained": "did not train", "diverged": "diverged", "failed": "failed", "measured": "not trained"}


def workloads(results: Results | str | Path) -> Answer:
    """Return what happened on each workload.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    frame = comparison_frame(results)
    tables = [table_of(results, "comparison", "Every cell", frame)]
    tables += [_table(results, workload) for workload in results.metric_of]
    return Answer(
        "workloads",
        f"What happened on each {results.names.noun}?",
        [sentence for workload in results.metric_of for sentence in workload_sentences(results, workload)],
        tables,
        remarks=_remarks(results),
        facts=frame,
        all_tables_are_main=True,
    )


@once
def workload_orders(results: Results) -> dict[str, WorkloadOrder]:
    """Return by workload the order of its treatments."""
    cells, frame = results.cells, comparison_frame(results)
    saturated = frame[frame["gradient_quotient_saturated"] > 0]
    return {
        workload: workload_order(
            cells[cells["workload"] == workload],
            results.verdicts[workload],
            set(saturated[saturated["workload"] == workload]["treatment"]),
        )
        for workload in results.metric_of
    }


@once
def comparison_frame(results: Results) -> pd.DataFrame:
    """Return one row per workload and treatment, the workload's treatments from best to worst.

    With the outcomes e₁ … eₙ of the n trials that finished or diverged (failed ones are counted apart):

    - ``rank`` is by `cells.ranked`, equal ones share the least: those that did not train are equal, and a diverged one
      is the worst;
    - ``outcome_median``: the median, a diverged trial counting as the worst; a diverged median is +∞, or -∞ if higher
      is better; ``state``: as in `cells.cells`;
    - ``outcome_mean``: ē = Σ eᵢ / n, missing if a trial diverged;
    - ``outcome_interval``: the half-width t₀.₉₇₅,ₙ₋₁ · s / √n of Student's 95 % interval around ē, with
      s² = Σ (eᵢ - ē)² / (n - 1); missing below 3 seeds, if all are equal, and if a trial diverged;
    - ``first_epoch_<metric>_mean``, if there is such a metric: the mean over the n trials, missing if one has none;
    - ``gradient_quotient_median``: over the n trials; ``gradient_quotient_saturated``: in how many of them it is;
    - ``initialization_seconds_mean``: the mean over the n trials; missing if the workload ran on several devices;
    - ``seeds`` (n), ``trained``, ``diverged``, ``failed``: counts; ``chance``: the outcome's level; ``parameters``: of
      the model; ``metric``: the outcome's name;
    - ``train_rate``: the share of the n seeds that train (`cells.cells`), with Wilson's 95 % interval ``train_rate_low,
      train_rate_high``; missing if chance is unknown.
    """
    early = early_columns(results.trials)
    used = ["trial_id", "workload", "treatment", "status", "outcome", "parameters", *early, *_MEASURED]
    trials = results.trials.reindex(columns=used)  # NaN if not measured; groups of all columns are slow
    for name, group in trials.groupby("workload"):
        if not on_one_device(results.by_id[i] for i in group["trial_id"]):
            trials.loc[trials["workload"] == name, _SECONDS] = np.nan
    known = results.cells.set_index(["workload", "treatment"]).to_dict("index")
    rows = []
    for key, group in trials.groupby(["workload", "treatment"]):
        workload, treatment = map(str, key)
        summary = _summary(group, known[key], results.metric_of[workload], early)
        rows.append({"workload": workload, "treatment": treatment} | summary)
    rows.sort(key=_sort_key)
    columns = [*_COLUMNS[:9], *(f"{name}_mean" for name in early), *_COLUMNS[9:]]
    frame = pd.DataFrame(rows, columns=[*columns, "ranked"])
    frame["rank"] = frame.groupby("workload")["ranked"].rank(method="min")
    return frame[columns]


def workload_sentences(results: Results, workload: str) -> list[Sentence]:
    """Return what happened on one workload, which is the sentences' subject and not named in them; at least one."""
    metric, names = results.metric_of[workload], results.names
    order = workload_orders(results)[workload]
    needed = partial(_seeds_needed, results, order.compared)
    sentences = order_sentences(order, metric, results.terms.treatment, names.treatment, needed)
    return [replace(sentence, subject=names.workload(workload)) for sentence in sentences]


def _seeds_needed(results: Results, treatments: int, verdict: Verdict) -> int | None:
    variance = results.variances.of(*verdict[:3])
    size, n = (treatments, len(results.metric_of), verdict.comparisons), verdict.difference.n
    return seeds_to_find(verdict.difference.value, variance, *size, more_than=n)


def order_sentences(
    order: WorkloadOrder,
    metric: Metric,
    treatment: str,
    display: Callable[[str], str] = str,
    needed: Callable[[Verdict], int | None] = lambda _: None,
) -> Iterator[Sentence]:
    """Yield who is best on a workload, who did not train or diverged and at which seeds, and whose GQ is saturated."""
    yield from _best(order, metric, treatment, display, needed)
    if len(order.untrained):
        yield _untrained(order, metric, treatment, display)
    partly = {
        name: (learned, seeds)
        for name, (learned, seeds) in order.partly.items()
        if learned + order.diverged.get(name, (0, 0))[0] < seeds
    }
    yield from _counts(partly, display, ("is better than guessing", "are better than guessing"))
    yield from _counts(order.diverged, display, ("diverges", "diverge"))
    if order.saturated:
        text = "GQ is saturated for {whose}: the gradient has vanished, so GQ says nothing about curvature."
        yield say(text, whose=named([display(name) for name in order.saturated]))


def _best(
    order: WorkloadOrder,
    metric: Metric,
    treatment: str,
    display: Callable[[str], str],
    needed: Callable[[Verdict], int | None],
) -> Iterator[Sentence]:
    if order.compared == 0:
        nothing = "Nothing was trained here: the trials were only measured at initialization."
        yield say(nothing) if order.seeds else say("No trial has a result.", is_open=True)
    elif len(order.outcomes) == 1:
        yield _only(order, metric, display)
    elif len(order.outcomes):
        yield from _leaders(order, metric, display, needed)
    elif len(order.diverged) == order.compared and all(
        2 * number >= seeds for number, seeds in order.diverged.values()
    ):
        yield say(f"Every {treatment} diverges.")


def _only(order: WorkloadOrder, metric: Metric, display: Callable[[str], str]) -> Sentence:
    """Return the sentence on the only treatment that trained, or that did not diverge if chance is not known."""
    text = "Only {name!b} trains: {value}."
    if order.partly:
        text = "Only {name!b} is better than guessing at every seed: {value}."
    elif not len(order.untrained):
        text = "Only {name!b} does not diverge: {value}."
    if order.compared == 1:
        text = "{name!b}: {value}; there is nothing to compare it with."
    value = outcome_words([metric.oriented(order.outcomes.iloc[0])], metric)
    return say(text, name=display(order.best), value=value)


def _leaders(
    order: WorkloadOrder, metric: Metric, display: Callable[[str], str], needed: Callable[[Verdict], int | None]
) -> Iterator[Sentence]:
    """Yield whom the best beats most narrowly, then those from which no difference was found."""
    leading = order.leading
    for other in [*order.behind[:1], *(leading[1:] if len(leading) == 2 else [])]:
        verdict = order.verdicts[other]
        enough = None if verdict.side or not verdict.difference.has_interval else needed(verdict)
        yield pair_on_workload(display(order.best), display(other), verdict.difference, metric, enough)
    if len(leading) > 2:
        values = [metric.oriented(order.outcomes[name]) for name in leading]
        text = "No difference was found between {who}: {values}; more seeds would be needed."
        who = named([display(name) for name in leading])
        yield say(text, who=who, values=outcome_words(values, metric), is_open=True)


def _untrained(order: WorkloadOrder, metric: Metric, treatment: str, display: Callable[[str], str]) -> Sentence:
    values = [metric.oriented(value) for value in order.untrained]
    if len(values) == order.compared:
        text = f"No {treatment} trains here: {{values}}, no better than guessing."
        return say(text, values=value_words(values, metric))
    does = "does" if len(values) == 1 else "do"
    text = f"{{who}} {does} not train: {{values}}, no better than guessing."
    who = named([display(str(name)) for name in order.untrained.index])
    return say(text, who=who, values=outcome_words(values, metric))


def _counts(
    counts: Mapping[str, tuple[int, int]], display: Callable[[str], str], verbs: tuple[str, str]
) -> Iterator[Sentence]:
    """Yield one sentence for the treatments with equally many seeds of a kind, the most first."""
    together: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name, of_seeds in counts.items():
        together[of_seeds].append(display(name))
    for (number, seeds), names in sorted(together.items(), key=lambda item: -item[0][0] / item[0][1]):
        many = f"all {seeds} seeds" if number == seeds else f"{number} of {seeds} seeds"
        at = "the only seed" if seeds == 1 else many
        yield say(f"{{who}} {verbs[len(names) > 1]} at {at}.", who=named(names))


def _remarks(results: Results) -> list[str]:
    """Return on which workloads the comparison is not fully paired."""
    trials = results.trials[results.trials["status"] != "failed"]
    seeds = trials.groupby(["workload", "treatment"], sort=False)["seed"].agg(frozenset)
    kinds = seeds.groupby("workload", sort=False).nunique()
    unpaired = ", ".join(results.names.workload(str(workload)) for workload in kinds.index[kinds > 1])
    has = f"Not every {results.terms.treatment} has results for the same seeds"
    return [f"{has} on {unpaired}: fewer pairs can be compared there."] if unpaired else []


def _table(results: Results, workload: str) -> Table:
    """Return the part of the whole table that the page shows of one workload."""
    frame, metric = comparison_frame(results), results.metric_of[workload]
    frame = frame[frame["workload"] == workload]
    frame = frame.assign(state_words=frame["state"].map(_STATES).fillna(""))
    members = [results.by_id[i] for i in results.trials_on[workload]["trial_id"]]
    sizes = set(frame["parameters"].dropna())
    parameters = [f"{max(sizes):,.0f} parameters"] if sizes else []
    note = " · ".join(filter(None, [*parameters, _recipe(members)]))
    trains = "train_rate" if (frame["train_rate"] < 1).any() else ""
    counts = f"{'parameters' if len(sizes) > 1 else ''} seeds {trains}"
    before = f"treatment {counts} outcome_median outcome_mean state_words"
    after = (
        f"diverged {'failed' if frame['failed'].any() else ''} gradient_quotient_median gradient_quotient_saturated "
        "initialization_seconds_mean"
    )
    title = results.names.workloads[workload].text
    table = table_of(results, "comparison", title, frame, f"{before} {after}", note, outcome=metric.title)
    at = len(before.split())
    shown = [*table.columns[:at], *_early(results, members), *table.columns[at:]]
    return replace(table, columns=shown, metrics={metric.name: metric}, is_written=False)


def _early(results: Results, members: Sequence[TrialRecord]) -> list[Column]:
    """Return a column for each metric after the first epoch; another task may have another metric of one name."""
    described = described_metrics(members)
    return [
        Column(capitalized(described[name].title), "outcome", f"{name}_mean", metric=described[name])
        for name in early_columns(results.trials)
        if name in described and any(name in record.metrics for record in members)
    ]


def _sort_key(row: Row) -> tuple[Any, ...]:
    outcome = row["outcome"]
    known = (True, 0.0) if math.isnan(outcome) else (False, outcome)
    return natural(row["workload"]), known, natural(row["treatment"])


def _summary(trials: pd.DataFrame, cell: Row, metric: Metric, early: Sequence[str]) -> dict[Hashable, Any]:
    ran = trials[trials["status"] != "failed"]
    values = ran["outcome"].dropna().to_numpy(dtype=float)
    complete = len(values) > 0 and cell["diverged"] == 0
    parameters = ran["parameters"].dropna()
    return {
        **cell,
        "chance": metric.oriented(cell["chance"]),
        "outcome_median": metric.oriented(cell["outcome"]),
        "outcome_mean": float(values.mean()) if complete else np.nan,
        "outcome_interval": mean_estimate(values).half_width if complete else np.nan,
        **{f"{column}_mean": ran[column].mean(skipna=False) for column in early},
        "gradient_quotient_median": _median_quotient(ran),
        "gradient_quotient_saturated": int(ran[f"{GQ}.saturated"].astype("boolean").sum()),
        "initialization_seconds_mean": ran[_SECONDS].mean(skipna=False),
        "parameters": parameters.iloc[0] if len(parameters) else np.nan,
        "metric": metric.name,
        **_train_rate(cell),
    }


def _train_rate(cell: Row) -> dict[Hashable, float]:
    trains, seeds = cell["trains"], int(cell["seeds"])
    rate = math.nan, math.nan, math.nan
    if seeds and not math.isnan(trains):
        rate = wilson_estimate(int(trains), seeds)[:3]
    return dict(zip(("train_rate", "train_rate_low", "train_rate_high"), rate, strict=True))


def _median_quotient(results: pd.DataFrame) -> float:
    """Return the median GQ: a value that was not finite (its entry says why) reads as +∞, NaN where none was taken."""
    if results[f"{GQ}.saturated"].isna().any() or not len(results):
        return float("nan")
    return float(np.median(results[GQ].astype(float).fillna(np.inf)))


def _recipe(members: Sequence[TrialRecord]) -> str:
    """Return the fields of the recipe that are set on this workload."""
    values = different_values(map(effective, distinct(record.spec["recipe"] for record in members)))
    return fields_text({key: sorted(levels, key=json.dumps) for key, levels in values.items()})
