"""The figures of the prediction: the outcome against a probe on each workload, and the correlations by workload."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from initbench.reporting.analyses.probe_results import ALL_VALUES
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.forest import ForestRow, forest_panel
from initbench.reporting.charts.scatter import Against, scatter_panels
from initbench.reporting.file_names import file_names
from initbench.reporting.formatting import capitalized, counted, quotient
from initbench.reporting.frame import GQ
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.words.prediction import association_words

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from typing import Any

    import pandas as pd

    from initbench.reporting.analyses.prediction import Prediction
    from initbench.reporting.analyses.probe_results import ProbeResult
    from initbench.reporting.results import Results


_MUCH = 10  # times the least: what values span then is seen on a logarithmic axis alone


def outcome_figures(found: Prediction) -> list[Figure]:
    """Return the outcome against the first probe, one figure for each workload that has something to draw."""
    if not found.probes:
        return []
    results, column, name = found.results, found.probes[0].column, found.probes[0].name
    own = results.trials
    if found.workload:
        own = own[own["workload"] == found.workload]
    trials = own.assign(treatment=own["treatment"].map(results.names.treatment))
    against = _against(found)
    panels = scatter_panels(trials, results.metric_of, results.palette, against)
    words = name.removeprefix("the ")
    stem = column.removeprefix("probe.").removeprefix("gradient_")
    names, drawable = file_names(list(panels), f"{stem}-"), can_be_drawn(found)
    return [
        Figure(
            names[workload],
            f"{capitalized(results.metric_of[workload].title)} against {words}: {results.names.workload(workload)}",
            _alt(results, workload, against, words),
            panel,
            _undrawn(drawable[workload], words),
            subject=results.names.workload(workload),
        )
        for workload, panel in panels.items()
    ]


def _against(found: Prediction) -> Against:
    """Return the axis of the first probe: but for GQ logarithmic where its values are positive and differ by much."""
    column = found.probes[0].column
    if column == GQ:
        return Against()
    values, title = found.results.trials[column], column.removeprefix("probe.").replace("_", " ")
    values = values[np.isfinite(values)]
    log = bool((values > 0).all() and values.max() > _MUCH * values.min())
    return Against(column, f"{title}, log scale" if log else title, log, "saturated")


def can_be_drawn(found: Prediction) -> dict[str, pd.Series[bool]]:
    """Return for the trials of each workload that have a result whether the first probe's value can be drawn."""
    trials, against = found.results.trials, _against(found)
    least = 0.0 if against.log else -math.inf
    ran = trials[trials["outcome"].notna() | (trials["status"] == "diverged")]
    return {
        str(workload): np.isfinite(own) & (own > least)
        for workload, own in ran.groupby("workload", sort=False)[against.column]
    }


def _undrawn(drawable: pd.Series[bool], words: str) -> str:
    number = int((~drawable).sum())
    return f"Not drawn, because the {words} is not finite: {counted(number, 'trial')}." if number else ""


def _alt(results: Results, workload: str, against: Against, words: str) -> str:
    trials, metric, column = results.trials, results.metric_of[workload], against.column
    own = trials[(trials["workload"] == workload) & (trials["status"] != "failed") & trials[column].notna()]
    own = own[own[column] > 0] if against.log else own
    values, diverged = own["outcome"].dropna(), int((own["status"] == "diverged").sum())
    flag = f"{column}.saturated"
    saturated = int(own[flag].fillna(value=False).sum()) if flag in own else 0
    trials_of = f"{counted(len(own), 'trial')} of {counted(own['treatment'].nunique(), results.terms.treatment)}"
    texts = [
        f"{capitalized(metric.title)} against {words} on {results.names.workload(workload)}: {trials_of}",
        f"{words} from {quotient(own[column].min())} to {quotient(own[column].max())}",
    ]
    if len(values):
        low, high = (metric.beside_title.text(end) for end in (values.min(), values.max()))
        texts.append(f"{metric.plural} from {low} to {high}")
    return ", ".join(texts) + f"; {diverged} diverged, {saturated} with a saturated value."


def rho_figures(found: Prediction) -> list[Figure]:
    """Return the forest plots of Spearman's ρ of the first probe, in each of its forms."""
    first = found.probes[0].column if found.probes else ""
    figures = (_forest(found, result) for result in found.probes[:2] if result.column == first)
    return [figure for figure in figures if figure is not None]


def _forest(found: Prediction, result: ProbeResult) -> Figure | None:
    terms, names = found.results.terms, found.results.names
    rows = [
        ForestRow(name, _estimate(row), f"{name}: {association_words(row, terms)}")
        for row in result.by_workload.to_dict("records")
        for name in [names.workload(str(row["workload"]))]
    ]
    note = f"Spearman’s ρ over the {terms.treatment}s of each {names.noun}, with its 95 % interval."
    drawn = sum(math.isfinite(row.estimate.value) for row in rows)
    if result.test.is_testable and math.isfinite(result.rho.value) and drawn > 1:
        words = _pooled_words("mean ρ", result.rho, f"{terms.treatment}s")
        rows.append(ForestRow(f"mean, over {terms.treatment}s", result.rho, words, pooled=True))
        pooled = result.pooled
        if pooled.rho.has_interval:
            words = _pooled_words("pooled ρ", pooled.rho, f"{names.noun}s")
            rows.append(ForestRow(f"pooled, over {names.noun}s", pooled.rho, words, pooled=True))
            note += (
                f" Pooled by random effects (Hartung and Knapp): I² = {100 * pooled.i_squared:.0f} %, τ² = "
                f"{pooled.tau_squared:.2f}; its interval is about more {names.noun}s for these {terms.treatment}s. The "
                f"other diamond’s is about more {terms.treatment}s, and is what the verdict uses."
            )
    if drawn < len(result.by_workload):
        note += f" Not drawn, because there is no ρ: {counted(len(result.by_workload) - drawn, names.noun)}."
    drawing = forest_panel(rows, "Spearman’s ρ", domain=(-1.0, 1.0))
    if drawing is None:
        return None
    suffix = "" if result.form == ALL_VALUES and not result.saturated.any() else f", {result.form}"
    alt = " ".join(row.words.rstrip(".") + "." for row in rows if math.isfinite(row.estimate.value))
    name = "forest" if result.form != ALL_VALUES or not suffix else "forest-all-values"
    return Figure(name, f"{capitalized(terms.outcome)} against {result.name}{suffix}", alt, drawing, note)


def probes_figure(found: Prediction) -> Figure | None:
    """Return the forest plot of the mean ρ of every probe, the strongest first; None where two have none."""
    terms = found.results.terms
    known = [result for result in found.probes if result.test.is_testable and math.isfinite(result.rho.value)]
    if len({result.probe for result in known}) < 2:
        return None
    known.sort(key=lambda result: -abs(result.rho.value))
    rows = [
        ForestRow(label, result.rho, _pooled_words(f"{label}: mean ρ", result.rho, f"{terms.treatment}s"))
        for result in known
        for label in [result.probe + ("" if result.form == ALL_VALUES else f", {result.form}")]
    ]
    drawing = forest_panel(rows, "mean Spearman’s ρ", domain=(-1.0, 1.0))
    assert drawing is not None
    note = (
        f"Over the {found.results.names.noun}s, with its 95 % interval over {terms.treatment}s. These intervals are of "
        "one probe each; the sentences correct for looking at several."
    )
    alt = ". ".join(row.words for row in rows) + "."
    return Figure("probes", f"{capitalized(terms.outcome)} against every probe", alt, drawing, note)


def _pooled_words(what: str, estimate: Estimate, unit: str) -> str:
    ends = f"95 % interval {estimate.low:+.2f} to {estimate.high:+.2f}, " if estimate.has_interval else ""
    return f"{what} {estimate.value:+.2f} ({ends}n = {estimate.n} {unit})"


def _estimate(row: Mapping[Hashable, Any]) -> Estimate:
    return Estimate(row["rho"], row["rho_low"], row["rho_high"], row["n"])
