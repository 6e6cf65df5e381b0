"""All statistics of each probe's relation to the outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.metric import Metric
from initbench.statistics.agreement import batch_spread, seed_agreement
from initbench.statistics.association import associations
from initbench.statistics.cells import cells, table
from initbench.statistics.cost import on_one_device
from initbench.statistics.divergence import DivergencePrediction, predict_divergence
from initbench.statistics.gain import Gain, gain
from initbench.statistics.intervals import Estimate
from initbench.statistics.permutation import Parts, PermutationTest, permutation_test
from initbench.statistics.pooled import Pooled, crossed, pool
from initbench.statistics.selection import Selection, selection

if TYPE_CHECKING:
    from initbench.ledger import TrialRecord

ALL_VALUES, UNSATURATED = "all values", "without saturated values"
NONE = Estimate(math.nan, math.nan, math.nan, 0)
_PICKED = (1, 3)
_SEVERAL = Gain(math.nan, NONE, math.nan, [])  # the workloads have several metrics


class ProbeResult(NamedTuple):
    """The relation of one probe to the outcomes, in one form.

    Attributes:
        column: column of the trials, such as ``probe.gradient_quotient``.
        form: `ALL_VALUES`, or `UNSATURATED` if some are saturated.
        lower_is_better: whether its authors say that low values go with good outcomes; None if they say nothing.
        by_workload: as from `association.associations`.
        saturated: by workload, the number of saturated treatments.
        test: the joint permutation test.
        rho: the mean ρ with its interval over treatments.
        pooled: by random effects over workloads.
        chosen: k → the result of choosing k treatments by the probe.
        gain: over trivial predictors.
        divergence: how well it predicts divergence.
        agreement: between seeds.
        spread: between batches.
        seconds: time to measure it, the median over trials; NaN if not recorded, or measured on different devices.
    """

    column: str
    form: str
    lower_is_better: bool | None
    by_workload: pd.DataFrame
    saturated: pd.Series
    test: PermutationTest
    rho: Estimate
    pooled: Pooled
    chosen: Mapping[int, Selection]
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
    def has_forms(self) -> bool:
        return self.form != ALL_VALUES or bool(self.saturated.any())

    @property
    def subject(self) -> str:
        """The subject of sentences: the probe, and the form if there are two."""
        return f"{self.probe}, {self.form}" if self.has_forms else self.probe


def probe_results(
    trials: pd.DataFrame,
    records: Sequence[TrialRecord],
    lower_is_better: Mapping[str, bool | None],
    trivial: Mapping[str, str],
    metric: Metric | None,
) -> list[ProbeResult]:
    """Return the statistics of each probe, in both forms if some of its values are saturated.

    Correlations are with the outcome in the metric's own direction. Untrained cells are tied and worse than any trained
    cell; diverged cells are the worst. If there are several metrics, correlations are with the oriented outcomes, and
    nothing is computed that would mix values of several metrics.

    Args:
        trials: as from `trials.comparable_trials`.
        records: records of all trials.
        lower_is_better: column of a probe → whether to choose low values, None to learn it.
        trivial: column → name of a predictor that a probe should improve on.
        metric: the outcome's metric, None if there are several.
    """
    compared = cells(trials, list(dict.fromkeys([*lower_is_better, *trivial])))
    outcome, ranked, diverged = table(compared), table(compared, "ranked"), table(compared, "diverged")
    shown = ranked if metric is None else ranked * metric.oriented(1.0)
    tables = {column: table(compared, column) for column in trivial}
    architectures = {
        workload: label or workload
        for workload, label in zip(trials["workload"], trials["architecture_label"], strict=True)
    }
    parts, results = _parts(trials), []
    for column, lower in lower_is_better.items():
        values, saturated = table(compared, column), table(compared, f"{column}.saturated") > 0
        others = {name: tables[other] for other, name in trivial.items() if other != column}
        forms = {ALL_VALUES: values}
        if saturated.to_numpy().any():
            forms = {UNSATURATED: values.mask(saturated)} | forms
        for form, x in forms.items():
            by_workload = associations(x, shown)
            chosen = {k: selection(x, outcome, k, lower, architectures) for k in _PICKED}
            if metric is None:
                chosen = {k: each._replace(regret=NONE, regret_at_random=NONE) for k, each in chosen.items()}
                added = _SEVERAL
            else:
                added = gain(x, ranked, others, architectures=architectures, parts=parts)
            results.append(
                ProbeResult(
                    column=column,
                    form=form,
                    lower_is_better=lower,
                    by_workload=by_workload,
                    saturated=(saturated & outcome.notna()).sum(axis="columns"),
                    test=permutation_test(x, shown, parts=parts),
                    rho=crossed(x, shown, parts),
                    pooled=pool(by_workload["rho"], by_workload["n"]),
                    chosen=chosen,
                    gain=added,
                    divergence=predict_divergence(x, diverged, parts=parts),
                    agreement=seed_agreement(_with_values(trials, column, form), column),
                    spread=batch_spread(_batches(records, column, form)),
                    seconds=_seconds(records, column),
                )
            )
    return results


def _parts(trials: pd.DataFrame) -> Parts | None:
    """Return the part of each treatment that is exchanged, None if treatments have a single factor."""
    if "rest" not in trials or not trials["rest"].any():
        return None
    return dict(zip(trials["treatment"], zip(trials["part"], trials["rest"], strict=True), strict=True))


def _with_values(trials: pd.DataFrame, column: str, form: str) -> pd.DataFrame:
    """Return the trials with the values of one form; a value that is not finite counts as +∞, as in `cells`."""
    flag = f"{column}.saturated"
    # Missing if the probe was not or could not be measured.
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
