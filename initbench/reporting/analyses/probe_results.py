"""What each probe tells of the outcomes: every statistic of it, for the page and the table to choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.reporting.frame import GQ
from initbench.reporting.trials import early_columns
from initbench.statistics.agreement import batch_spread, mean_seed_agreement, seed_agreement
from initbench.statistics.association import associations
from initbench.statistics.cells import cells, table
from initbench.statistics.cost import on_one_device
from initbench.statistics.divergence import DivergencePrediction, predict_divergence
from initbench.statistics.gain import Gain, gain
from initbench.statistics.intervals import Estimate
from initbench.statistics.permutation import PermutationTest, permutation_test
from initbench.statistics.pooled import Pooled, crossed, pool
from initbench.statistics.selection import Selection, selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.ledger import TrialRecord
    from initbench.metric import Metric
    from initbench.reporting.results import Results
    from initbench.reporting.terms import Terms
    from initbench.statistics.permutation import Parts

TRIVIAL = {
    "parameters": "the parameter count",
    "architecture.depth": "depth",
    "probe.initial_loss": "the initial loss",
    "probe.gradient_norm": "the gradient norm",
}
"""Column → words: what a probe has to add something to, beside the metrics after the first epoch; it costs nothing."""
ALL_VALUES, UNSATURATED = "all values", "without saturated values"
_WORDS = {"probe.gradient_quotient": "the gradient quotient"} | TRIVIAL
_PICKED = (1, 3)
_NONE = Estimate(math.nan, math.nan, math.nan, 0)
_SEVERAL = Gain(math.nan, math.nan, _NONE, math.nan, [], 0, "the workloads have several metrics")


@dataclass(frozen=True)
class ProbeResult:
    """What one probe tells of the outcomes.

    Attributes:
        column: of the trials, such as ``probe.gradient_quotient``.
        form: `ALL_VALUES`, or `UNSATURATED` where some are saturated.
        by_workload: as from `association.associations`.
        saturated: by workload, how many treatments are saturated.
        test: the joint permutation test.
        rho: the mean ρ with its interval over treatments.
        pooled: by random effects over workloads.
        chosen: picking k treatments by it, by k.
        gain: over trivial predictors.
        divergence: foretold.
        agreement: between seeds.
        spread: between batches.
        seconds: median over trials of what measuring it took, NaN where that was not recorded or on several devices.
    """

    column: str
    form: str
    by_workload: pd.DataFrame
    saturated: pd.Series[int]
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
        return _WORDS.get(self.column, self.column.removeprefix("probe."))


def probe_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns of the probes that some trial has, the gradient quotient first."""
    found = [
        str(column)
        for column in trials.columns
        if str(column).startswith("probe.") and not str(column).endswith(".saturated") and trials[column].notna().any()
    ]
    return sorted(found, key=lambda column: (column != GQ, natural(column)))


def trivial_predictors(results: Results) -> dict[str, str]:
    """Return what a probe has to add something to where it is known: columns of the trials, and their words."""
    described = results.described
    early = {name: described[name].title if name in described else name for name in early_columns(results.trials)}
    # An architecture may have a depth that is a word.
    trials = results.trials
    return {
        column: words
        for column, words in (TRIVIAL | early).items()
        if column not in trials or all(isinstance(value, Real) for value in trials[column].dropna())
    }


def measure(found: Results) -> list[ProbeResult]:
    """Return what each probe tells, in both forms where some of its values are saturated.

    Correlations are with the outcome in the metric's own direction. Those of cells that did not train are tied, worse
    than any that did, and a diverged one is the worst. Where there are several metrics they are with the oriented
    outcomes, and what would put their values together is not computed.

    Args:
        found: the results of a report.
    """
    trials, records, terms = found.trials, found.records, found.terms
    columns = probe_columns(trials)
    trivial = {column: words for column, words in trivial_predictors(found).items() if column in trials}
    for name in early_columns(trials):
        nothing = _learned_nothing(found.described.get(name))
        trials = trials.assign(
            **{name: trials[name].mask((trials["status"] == "diverged") & trials[name].isna(), nothing)}
        )
    compared = cells(trials, list(dict.fromkeys([*columns, *trivial])))
    outcome, ranked, diverged = table(compared), table(compared, "ranked"), table(compared, "diverged")
    shown = ranked if terms.metric is None else ranked * terms.metric.oriented(1.0)
    tables = {words: (column, table(compared, column)) for column, words in trivial.items()}
    architectures = {
        workload: label or workload
        for workload, label in zip(trials["workload"], trials["architecture_label"], strict=True)
    }
    parts, results = _parts(trials), []
    for column in columns:
        values, saturated = table(compared, column), table(compared, f"{column}.saturated") > 0
        flags = _flags(trials, column)
        forms = {ALL_VALUES: values}
        if saturated.to_numpy().any():
            forms = {UNSATURATED: values.mask(saturated)} | forms
        # Of GQ a low value is said to be good; of others nothing is said beforehand.
        lower = True if column == GQ or column.startswith(f"{GQ}[") else None
        for form, own in forms.items():
            by_workload = associations(own, shown)
            results.append(
                ProbeResult(
                    column,
                    form,
                    by_workload,
                    (saturated & outcome.notna()).sum(axis="columns"),
                    permutation_test(own, shown, parts=parts),
                    crossed(own, shown, parts),
                    pool(by_workload["rho"], by_workload["n"]),
                    {k: _picked(selection(own, outcome, k, lower, architectures), terms) for k in _PICKED},
                    _SEVERAL
                    if terms.metric is None
                    else gain(own, ranked, _others(tables, column), architectures=architectures, parts=parts),
                    predict_divergence(own, diverged, parts=parts),
                    mean_seed_agreement(seed_agreement(_shown(trials, column, flags, form), column)),
                    batch_spread(_batches(records, column, form)),
                    _seconds(records, column),
                )
            )
    return results


def _learned_nothing(metric: Metric | None) -> float:
    """Return the value after the first epoch of a trial that diverged in it: the worst that there can be.

    That of a share, an accuracy in percent, is 0; of other metrics no worst is known.
    """
    if metric is None or (metric.better == "higher" and metric.unit == "%"):
        return 0.0
    return metric.oriented(math.inf)


def _parts(trials: pd.DataFrame) -> Parts | None:
    """Return what of each treatment is exchanged, None where treatments have one factor alone."""
    if "rest" not in trials or not trials["rest"].any():
        return None
    return dict(zip(trials["treatment"], zip(trials["part"], trials["rest"], strict=True), strict=True))


def _picked(chosen: Selection, terms: Terms) -> Selection:
    """Return a selection without its regrets where these are differences of several metrics."""
    return chosen if terms.metric is not None else chosen._replace(regret=_NONE, regret_at_random=_NONE)


def _others(tables: Mapping[str, tuple[str, pd.DataFrame]], column: str) -> dict[str, pd.DataFrame]:
    """Return the trivial predictors by their words, without the probe itself."""
    return {words: values for words, (name, values) in tables.items() if name != column}


def _flags(trials: pd.DataFrame, column: str) -> pd.Series[bool]:
    """Return whether each trial's value is saturated, missing where the probe cannot be or was not taken."""
    flag = f"{column}.saturated"
    return trials[flag].astype("boolean") if flag in trials else pd.Series(pd.NA, trials.index, dtype="boolean")


def _shown(trials: pd.DataFrame, column: str, flags: pd.Series[bool], form: str) -> pd.DataFrame:
    """Return the trials with the values of one form; what was taken and is not finite reads as +∞, as in `cells`."""
    values = trials[column].astype(float)
    values = values.mask(values.isna() & flags.notna(), np.inf)
    return trials.assign(**{column: values.mask(flags.fillna(value=False)) if form == UNSATURATED else values})


def _batches(records: Sequence[TrialRecord], column: str, form: str) -> list[list[float]]:
    name, found = column.removeprefix("probe."), []
    for record in records:
        for probe in record.probes:
            conditions = probe.get("conditions") or {}
            values = conditions.get("per_batch")
            left = form == UNSATURATED and conditions.get("saturated")
            if probe["name"] == name and isinstance(values, list) and not left:
                found.append([math.nan if value is None else float(value) for value in values])
    return found


def _seconds(records: Sequence[TrialRecord], column: str) -> float:
    key = f"{column.removeprefix('probe.')}_probe_seconds"
    values = [float(record.timing[key]) for record in records if key in record.timing]
    return float(np.median(values)) if values and on_one_device(records) else math.nan
