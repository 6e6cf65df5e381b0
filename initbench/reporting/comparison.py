"""Which treatment is better: one row per treatment within each workload, whose trials differ in nothing else."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.reporting.frame import GQ, natural
from initbench.reporting.metrics import EARLY, UNKNOWN
from initbench.reporting.statistics.intervals import mean_estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.metric import Metric


def comparable_trials(frame: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the trials that are compared, each under a treatment's label that names one cell of its workload.

    Search trials are left out. A trial that was run twice with other probes has the same outcome and is counted once.
    Where several cells of a workload have the same label (a rule was edited between two runs), what tells them apart is
    added in braces, so that trials that are no replicates are never pooled: ``kaiming {clip_norm=0.5}``.

    Where the trials of a workload have several metrics (datasets of several tasks are compared), the metric is a part
    of the workload: values of one are never ranked among those of another.

    A column ``oriented`` is added, which the statistics take: the outcome as `Metric.oriented` turns it, so that lower
    is better; +∞ for a diverged trial, and missing for one without a result.

    Args:
        frame: as from `load_results`, or `frame.results_frame` with every standing.
        metrics: as from `metrics.outcome_metrics`.
    """
    trials = frame[frame["phase"] == "final"]
    places = ["cell", "seed", "workload"]  # whose scheme the suite and an initializer name may stand in two workloads
    known = trials.notna().sum(axis="columns").sort_values(kind="stable").index
    trials = trials.loc[known].drop_duplicates(places, keep="last").sort_index().copy()
    trials["workload"] = _by_metric(trials, metrics)
    for _, same in trials.groupby(["workload", "treatment"], sort=False):
        if len(set(same["cell"])) > 1:
            texts = [f" {{{text}}}" for text in _differences(same)]
            for column in {"treatment", "part"} & set(trials.columns):
                trials.loc[same.index, column] = [f"{own}{text}" for own, text in zip(same[column], texts, strict=True)]
    signs = trials["metric"].map({name: metric.oriented(1.0) for name, metric in metrics.items()}).astype(float)
    return trials.assign(oriented=(signs * trials["outcome"]).where(trials["status"] != "diverged", np.inf))


def _by_metric(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.Series[str]:
    """Return each trial's workload, with the metric's title (its name where titles are equal) where it has several."""
    several = trials.groupby("workload")["metric"].transform("nunique") > 1
    # A failed trial has no metric; those of its treatment tell which it would have had.
    own = trials["metric"].fillna(trials.groupby(["workload", "treatment"])["metric"].transform("first"))
    shared = Counter(metric.title for metric in metrics.values())
    words = {name: metric.title if shared[metric.title] == 1 else name for name, metric in metrics.items()}
    return trials["workload"].where(~several | own.isna(), trials["workload"] + " · " + own.map(words).astype(str))


def workload_metrics(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the metric of each workload; where all its trials have failed, that of the others if it is one.

    Args:
        trials: as from `comparable_trials`.
        metrics: as from `metrics.outcome_metrics`.
    """
    names = trials["metric"].dropna()
    other = metrics[names.iloc[0]] if len(set(names)) == 1 else UNKNOWN
    known = trials.loc[names.index].drop_duplicates("workload").set_index("workload")["metric"]
    return {name: metrics[known[name]] if name in known else other for name in trials["workload"].unique()}


def compare(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the comparison: per workload, the treatments from best to worst.

    With the outcomes e₁ … eₙ of the n trials that finished or diverged (failed ones are counted apart):

    - ``outcome_median``: the median, a diverged trial counting as the worst; ``rank`` is by it, equal ones share the
      least; a diverged median is +∞, and -∞ where higher is better;
    - ``outcome_mean``: ē = Σ eᵢ / n, missing where a trial has diverged;
    - ``outcome_interval``: the half-width t₀.₉₇₅,ₙ₋₁ · s / √n of Student's 95 % interval around ē, with
      s² = Σ (eᵢ - ē)² / (n - 1); missing below 3 seeds, where all are equal, and where a trial has diverged;
    - ``first_epoch_<metric>_mean`` where there is such a metric: the mean over the n trials, missing where one
      has none;
    - ``gradient_quotient_median``: over the n trials; ``gradient_quotient_saturated``: in how many of them it is;
    - ``initialization_seconds_mean``: the mean over the n trials;
    - ``seeds`` (n), ``diverged``, ``failed``: counts; ``parameters``: of the model; ``metric``: the outcome's name.

    Args:
        trials: as from `comparable_trials`.
        metrics: as from `metrics.outcome_metrics`.
    """
    needed = [GQ, f"{GQ}.saturated", "initialization_seconds"]
    trials = trials.reindex(columns=[*trials.columns, *(column for column in needed if column not in trials)])
    by_workload = workload_metrics(trials, metrics)
    rows = [
        {"workload": workload, "treatment": treatment, "rank": np.nan, **_summary(cell, by_workload[str(workload)])}
        for (workload, treatment), cell in trials.groupby(["workload", "treatment"])
    ]
    oriented = [by_workload[row["workload"]].oriented(row["outcome_median"]) for row in rows]
    keys = [
        (natural(row["workload"]), (True, 0.0) if math.isnan(value) else (False, value), natural(row["treatment"]))
        for row, value in zip(rows, oriented, strict=True)
    ]
    order = sorted(range(len(rows)), key=keys.__getitem__)
    columns = ["workload", "treatment", "rank", *_summary(trials.head(0), UNKNOWN)]
    table = pd.DataFrame([rows[i] for i in order], columns=columns)
    by_median = pd.Series([oriented[i] for i in order], dtype=float)
    table["rank"] = by_median.groupby(table["workload"]).rank(method="min")
    return table


def _summary(cell: pd.DataFrame, metric: Metric) -> dict[str, Any]:
    results = cell[cell["status"] != "failed"]
    diverged = int((results["status"] == "diverged").sum())
    outcomes = results["oriented"].dropna().to_numpy(dtype=float)
    values = results["outcome"].dropna().to_numpy(dtype=float)
    complete = len(values) > 0 and diverged == 0
    parameters = results["parameters"].dropna()
    return {
        "seeds": len(results),
        "diverged": diverged,
        "failed": len(cell) - len(results),
        "outcome_median": metric.oriented(float(np.median(outcomes))) if len(outcomes) else np.nan,
        "outcome_mean": float(values.mean()) if complete else np.nan,
        "outcome_interval": mean_estimate(values).half_width if complete else np.nan,
        **{f"{column}_mean": results[column].mean(skipna=False) for column in early_columns(cell)},
        "gradient_quotient_median": _median_quotient(results),
        "gradient_quotient_saturated": int(results[f"{GQ}.saturated"].astype("boolean").sum()),
        "initialization_seconds_mean": results["initialization_seconds"].mean(skipna=False),
        "parameters": parameters.iloc[0] if len(parameters) else np.nan,
        "metric": metric.name,
    }


def early_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of the metrics after the first epoch."""
    return [column for column in trials.columns if column.startswith(EARLY)]


def _median_quotient(results: pd.DataFrame) -> float:
    """Return the median GQ: a value that was not finite (its entry says why) reads as +∞, NaN where none was taken."""
    if GQ not in results or results[f"{GQ}.saturated"].isna().any() or not len(results):
        return float("nan")
    return float(np.median(results[GQ].astype(float).fillna(np.inf)))


def _differences(trials: pd.DataFrame) -> list[str]:
    """Return for each trial the arguments that tell its cell from the others, with its hash if they do not."""
    arguments = [c for c in trials.columns if c.startswith(("architecture.", "initializer.", "recipe."))]
    varied = [c for c in arguments if len(set(trials[c].astype(str))) > 1]
    texts = [
        ", ".join(f"{column.partition('.')[2]}={value}" for column, value in zip(varied, values, strict=True))
        for values in trials[varied].astype(str).to_numpy().tolist()
    ]
    # Arguments that do not tell all cells apart (another version of a component) need the hash as well.
    pairs = set(zip(texts, trials["cell"], strict=True))
    ambiguous = len(pairs) > len(set(texts))
    return [
        f"{text or 'cell'} {cell[:6]}" if ambiguous else text for text, cell in zip(texts, trials["cell"], strict=True)
    ]
