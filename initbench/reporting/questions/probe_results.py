"""Which probes a report has, and what each tells of the outcomes."""

from __future__ import annotations

import math
from numbers import Real

import pandas as pd

from initbench.comparing.formatting import natural
from initbench.metric import Metric
from initbench.reporting.frame import GQ
from initbench.reporting.results import Results, once
from initbench.reporting.trials import early_columns
from initbench.statistics.probes import ProbeResult, probe_results

TRIVIAL = {
    "parameters": "the parameter count",
    "architecture.depth": "depth",
    "probe.initial_loss": "the initial loss",
    "probe.gradient_norm": "the gradient norm",
}
"""Column → words: what costs nothing, so that a probe has to add something to it and to metrics after one epoch."""
_WORDS = {GQ: "the gradient quotient"} | TRIVIAL


def name_of(result: ProbeResult) -> str:
    """Return the probe as a sentence has it."""
    return _WORDS.get(result.column, result.probe)


def probe_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of the probes that some trial has, the gradient quotient first."""
    columns = [column for column in map(str, trials.columns) if column.startswith("probe.")]
    probes = [column for column in columns if not column.endswith(".saturated") and trials[column].notna().any()]
    return sorted(probes, key=lambda column: (column != GQ, natural(column)))


def trivial_predictors(results: Results) -> dict[str, str]:
    """Return the trivial predictors to which a probe has to add something: columns of the trials, and their words."""
    described, trials = results.described, results.trials
    early = {name: described[name].title if name in described else name for name in early_columns(trials)}
    # An architecture may have a depth that is a word.
    return {
        column: words
        for column, words in (TRIVIAL | early).items()
        if column not in trials or all(isinstance(value, Real) for value in trials[column].dropna())
    }


@once
def measure(results: Results) -> list[ProbeResult]:
    """Return what each probe tells; after the first epoch, trials that diverged in it have the worst value."""
    trials = results.trials
    for name in early_columns(trials):
        lost = (trials["status"] == "diverged") & trials[name].isna()
        trials = trials.assign(**{name: trials[name].mask(lost, _worst(results.described.get(name)))})
    # A low GQ is said to be good; of other probes nothing is said beforehand.
    lower = {column: True if column == GQ or column.startswith(f"{GQ}[") else None for column in probe_columns(trials)}
    trivial = {column: words for column, words in trivial_predictors(results).items() if column in trials}
    return probe_results(trials, results.records, lower, trivial, results.terms.metric)


def _worst(metric: Metric | None) -> float:
    """Return 0 for an accuracy in percent, ∞ in the worse direction for metrics without a known worst value."""
    if metric is None or (metric.better == "higher" and metric.unit == "%"):
        return 0.0
    return metric.oriented(math.inf)
