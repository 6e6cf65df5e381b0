"""What each probe tells of the outcomes: every statistic of it, for sentences, tables and figures to choose from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.ledger import TrialRecord
from initbench.metric import Metric
from initbench.reporting.frame import GQ
from initbench.reporting.results import Results
from initbench.reporting.trials import early_columns
from initbench.statistics.agreement import batch_spread, mean_seed_agreement, seed_agreement
from initbench.statistics.association import associations
from initbench.statistics.cells import cells, table
from initbench.statistics.cost import on_one_device
from initbench.statistics.divergence import DivergencePrediction, predict_divergence
from initbench.statistics.gain import Gain, gain
from initbench.statistics.intervals import Estimate
from initbench.statistics.permutation import Parts, PermutationTest, permutation_test
from initbench.statistics.pooled import Pooled, crossed, pool
from initbench.statistics.selection import Selection, selection

TRIVIAL = {
    "parameters": "the parameter count",
    "architecture.depth": "depth",
    "probe.initial_loss": "the initial loss",
    "probe.gradient_norm": "the gradient norm",
}
"""Column → words: what costs nothing, so that a probe has to add something to it and to metrics after one epoch."""
ALL_VALUES, UNSATURATED = "all values", "without saturated values"
NONE = Estimate(math.nan, math.nan, math.nan, 0)
_WORDS = {GQ: "the gradient quotient"} | TRIVIAL
_PICKED = (1, 3)
_SEVERAL = Gain(math.nan, math.nan, NONE, math.nan, [], 0, "the workloads have several metrics")


class ProbeResult(NamedTuple):
    """What one probe tells of the outcomes, in one form.

    Attributes:
        column: of the trials, such as ``probe.gradient_quotient``.
        form: `ALL_VALUES`, or `UNSATURATED` if some are saturated.
        by_workload: as from `association.associations`.
        saturated: by workload, how many treatments are saturated.
        test: the joint permutation test.
        rho: the mean ρ with its interval over treatments.
        pooled: by random effects over workloads.
        chosen: k → choosing k treatments by it.
        gain: over trivial predictors.
        divergence: how well it foretells that.
        agreement: between seeds.
        spread: between batches.
        seconds: to measure it, the median over trials; NaN if not recorded, or if on several devices.
    """

    column: str
    form: str
    by_workload: pd.DataFrame
    saturated: pd.Series
    test: PermutationTest
    rho: Estimate
    pooled: Pooled
    chosen: dict[int, Selection]
    gain: Gain
    divergence: DivergencePrediction
    agreement: Estimate
    spread: Estimate
    seconds: float

    @property
    def probe(self) -> str:
        """The probe, as suites name it."""
        return self.column.removeprefix("probe.")

    @property
    def name(self) -> str:
        """The probe, as a sentence has it."""
        return _WORDS.get(self.column, self.probe)

    @property
    def subject(self) -> str:
        """What sentences on it are about: the probe, and the form if there are two."""
        return self.probe if self.form == ALL_VALUES and not self.saturated.any() else f"{self.probe}, {self.form}"


def probe_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of the probes that some trial has, the gradient quotient first."""
    columns = [column for column in map(str, trials.columns) if column.startswith("probe.")]
    probes = [column for column in columns if not column.endswith(".saturated") and trials[column].notna().any()]
    return sorted(probes, key=lambda column: (column != GQ, natural(column)))


def trivial_predictors(results: Results) -> dict[str, str]:
    """Return what a probe has to add something to if it is known: columns of the trials, and their words."""
    described, trials = results.described, results.trials
    early = {name: described[name].title if name in described else name for name in early_columns(trials)}
    # An architecture may have a depth that is a word.
    return {
        column: words
        for column, words in (TRIVIAL | early).items()
        if column not in trials or all(isinstance(value, Real) for value in trials[column].dropna())
    }


def measure(results: Results) -> list[ProbeResult]:
    """Return what each probe tells, in both forms if some of its values are saturated.

    Correlations are with the outcome in the metric's own direction. Cells that did not train are tied, worse than any
    that did, and those that diverged are the worst. If there are several metrics, correlations are with the oriented
    outcomes, and nothing is computed that would put values of several metrics together.
    """
    trials, metric = _worst_where_diverged(results), results.terms.metric
    columns = probe_columns(trials)
    trivial = {column: words for column, words in trivial_predictors(results).items() if column in trials}
    compared = cells(trials, list(dict.fromkeys([*columns, *trivial])))
    outcome, ranked, diverged = table(compared), table(compared, "ranked"), table(compared, "diverged")
    shown = ranked if metric is None else ranked * metric.oriented(1.0)
    tables = {name: table(compared, name) for name in trivial}
    architectures = {
        workload: label or workload
        for workload, label in zip(trials["workload"], trials["architecture_label"], strict=True)
    }
    parts, measured = _parts(trials), []
    for column in columns:
        values, saturated = table(compared, column), table(compared, f"{column}.saturated") > 0
        others = {words: tables[name] for name, words in trivial.items() if name != column}
        forms = {ALL_VALUES: values}
        if saturated.to_numpy().any():
            forms = {UNSATURATED: values.mask(saturated)} | forms
        # A low GQ is said to be good; of other probes nothing is said beforehand.
        lower = True if column == GQ or column.startswith(f"{GQ}[") else None
        for form, own in forms.items():
            by_workload = associations(own, shown)
            chosen = {k: selection(own, outcome, k, lower, architectures) for k in _PICKED}
            if metric is None:
                chosen = {k: each._replace(regret=NONE, regret_at_random=NONE) for k, each in chosen.items()}
                added = _SEVERAL
            else:
                added = gain(own, ranked, others, architectures=architectures, parts=parts)
            measured.append(
                ProbeResult(
                    column=column,
                    form=form,
                    by_workload=by_workload,
                    saturated=(saturated & outcome.notna()).sum(axis="columns"),
                    test=permutation_test(own, shown, parts=parts),
                    rho=crossed(own, shown, parts),
                    pooled=pool(by_workload["rho"], by_workload["n"]),
                    chosen=chosen,
                    gain=added,
                    divergence=predict_divergence(own, diverged, parts=parts),
                    agreement=mean_seed_agreement(seed_agreement(_with_values(trials, column, form), column)),
                    spread=batch_spread(_batches(results.records, column, form)),
                    seconds=_seconds(results.records, column),
                )
            )
    return measured


def _worst_where_diverged(results: Results) -> pd.DataFrame:
    """Return the trials, with the worst value after the first epoch for those that diverged in it."""
    trials = results.trials
    for name in early_columns(trials):
        lost = (trials["status"] == "diverged") & trials[name].isna()
        trials = trials.assign(**{name: trials[name].mask(lost, _worst(results.described.get(name)))})
    return trials


def _worst(metric: Metric | None) -> float:
    """Return 0 for an accuracy in percent, ∞ in the worse direction for metrics without a known worst value."""
    if metric is None or (metric.better == "higher" and metric.unit == "%"):
        return 0.0
    return metric.oriented(math.inf)


def _parts(trials: pd.DataFrame) -> Parts | None:
    """Return what of each treatment is exchanged, None if treatments have one factor alone."""
    if "rest" not in trials or not trials["rest"].any():
        return None
    return dict(zip(trials["treatment"], zip(trials["part"], trials["rest"], strict=True), strict=True))


def _with_values(trials: pd.DataFrame, column: str, form: str) -> pd.DataFrame:
    """Return the trials with the values of one form; a value that is not finite reads as +∞, as in `cells`."""
    flag = f"{column}.saturated"
    # Missing if the probe cannot be taken or was not.
    flags = trials[flag].astype("boolean") if flag in trials else pd.Series(pd.NA, trials.index, dtype="boolean")
    values = trials[column].astype(float)
    values = values.mask(values.isna() & flags.notna(), np.inf)
    return trials.assign(**{column: values.mask(flags.fillna(value=False)) if form == UNSATURATED else values})


def _batches(records: Sequence[TrialRecord], column: str, form: str) -> list[list[float]]:
    batches = []
    for record in records:
        for probe in record.probes:
            conditions = probe.get("conditions") or {}
            values = conditions.get("per_batch")
            left_out = form == UNSATURATED and conditions.get("saturated")
            if probe["name"] == column.removeprefix("probe.") and isinstance(values, list) and not left_out:
                batches.append([math.nan if value is None else float(value) for value in values])
    return batches


def _seconds(records: Sequence[TrialRecord], column: str) -> float:
    key = f"{column.removeprefix('probe.')}_probe_seconds"
    values = [float(record.timing[key]) for record in records if key in record.timing]
    return float(np.median(values)) if values and on_one_device(records) else math.nan
