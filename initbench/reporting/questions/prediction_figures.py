"""Figures of probes: their correlations with the outcome, and the outcome against the first probe."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, counted, quotient, typeset
from initbench.reporting.charts.axis import needs_log
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.rows import ForestRow, forest_panel
from initbench.reporting.charts.scatter import Against, scatter_panels
from initbench.reporting.file_names import file_names
from initbench.reporting.frame import GQ
from initbench.reporting.questions.probe_results import name_of
from initbench.reporting.results import Results
from initbench.reporting.sizes import plain_words
from initbench.statistics.intervals import Estimate
from initbench.statistics.probes import ALL_VALUES, ProbeResult


def prediction_figures(probes: Sequence[ProbeResult], results: Results, workload: str = "") -> list[Figure]:
    """Return the correlations of the first probe by workload and of all probes, and the outcome against the first.

    Args:
        probes: as from `probe_results.measure`, at least one.
        results: of the report.
        workload: label of the only one on which the outcome is drawn; empty for all.
    """
    forests = [_forest(result, results) for result in probes[:2] if result.column == probes[0].column]
    drawn = [figure for figure in (*forests, _every_probe(probes, results)) if figure is not None]
    return drawn + _outcome_figures(probes[0], results, workload)


def can_be_drawn(result: ProbeResult, results: Results) -> dict[str, pd.Series]:
    """Return for the trials of each workload that have a result whether the probe's value can be drawn."""
    trials, against = results.trials, _against(result, results)
    least = 0.0 if against.log else -math.inf
    ran = trials[trials["outcome"].notna() | (trials["status"] == "diverged")]
    return {
        str(workload): np.isfinite(values) & (values > least)
        for workload, values in ran.groupby("workload", sort=False)[against.column]
    }


def _forest(result: ProbeResult, results: Results) -> Figure | None:
    """Return the forest plot of Spearman's ρ of one probe on each workload."""
    terms, noun, treatments = results.terms, results.names.noun, f"{results.terms.treatment}s"
    rows = []
    for row in result.by_workload[np.isfinite(result.by_workload["rho"])].to_dict("records"):
        name, rho = (
            results.names.workload(row["workload"]),
            Estimate(*(row[k] for k in ("rho", "rho_low", "rho_high", "n"))),
        )
        rows.append(ForestRow(name, rho, f"{name}: ρ = {typeset(plain_words(rho, '{:+.2f}'))}."))
    note = f"Spearman’s ρ over the {treatments} of each {noun}, with its 95 % interval."
    left_out = len(result.by_workload) - len(rows)
    if result.test.is_testable and math.isfinite(result.rho.value) and len(rows) > 1:
        words = _pooled_words("mean ρ", result.rho, treatments)
        rows.append(ForestRow(f"mean, over {treatments}", result.rho, words, pooled=True))
        pooled = result.pooled
        if pooled.rho.has_interval:
            words = _pooled_words("pooled ρ", pooled.rho, f"{noun}s")
            rows.append(ForestRow(f"pooled, over {noun}s", pooled.rho, words, pooled=True))
            note += (
                f" The pooled ρ is by random effects (Hartung and Knapp): I² = {100 * pooled.i_squared:.0f} %, τ² = "
                f"{pooled.tau_squared:.2f}; its interval speaks of more {noun}s with these {treatments}. The interval "
                f"of the mean speaks of more {treatments}, and the verdict uses it."
            )
    if left_out:
        note += f" Not drawn, because there is no ρ: {counted(left_out, noun)}."
    drawing = forest_panel(rows, "Spearman’s ρ", domain=(-1.0, 1.0))
    if drawing is None:
        return None
    title = f"{capitalized(terms.outcome)} against {name_of(result)}" + (f", {result.form}" if result.has_forms else "")
    alt = " ".join(row.words.rstrip(".") + "." for row in rows)
    name = "forest-all-values" if result.has_forms and result.form == ALL_VALUES else "forest"
    return Figure(name, title, alt, drawing, note)


def _every_probe(probes: Sequence[ProbeResult], results: Results) -> Figure | None:
    """Return the forest plot of the mean ρ of every probe, the strongest first; None unless two have one."""
    known = [result for result in probes if result.test.is_testable and math.isfinite(result.rho.value)]
    if len({result.probe for result in known}) < 2:
        return None
    treatments, rows = f"{results.terms.treatment}s", []
    for result in sorted(known, key=lambda result: -abs(result.rho.value)):
        label = result.probe + ("" if result.form == ALL_VALUES else f", {result.form}")
        rows.append(ForestRow(label, result.rho, _pooled_words(f"{label}: mean ρ", result.rho, treatments)))
    drawing = forest_panel(rows, "mean Spearman’s ρ", domain=(-1.0, 1.0))
    assert drawing is not None
    note = (
        f"Over the {results.names.noun}s, with its 95 % interval over {treatments}. Each interval is of one probe; the "
        "sentences correct for looking at several."
    )
    alt = ". ".join(row.words for row in rows) + "."
    return Figure("probes", f"{capitalized(results.terms.outcome)} against every probe", alt, drawing, note)


def _pooled_words(what: str, estimate: Estimate, unit: str) -> str:
    ends = f"95 % interval {estimate.low:+.2f} to {estimate.high:+.2f}, " if estimate.has_interval else ""
    return f"{what} {typeset(f'{estimate.value:+.2f} ({ends}n = {estimate.n}')} {unit})"


def _outcome_figures(result: ProbeResult, results: Results, only: str) -> list[Figure]:
    """Return the outcome against a probe, one figure for each workload that has something to draw."""
    trials = results.trials
    if only:
        trials = trials[trials["workload"] == only]
    trials = trials.assign(treatment=trials["treatment"].map(results.names.treatment_in_figure))
    against, words = _against(result, results), name_of(result).removeprefix("the ")
    panels = scatter_panels(trials, results.metric_of, results.palette, against)
    names, drawable = (
        file_names(list(panels), f"{result.probe.removeprefix('gradient_')}-"),
        can_be_drawn(result, results),
    )
    figures = []
    for workload, panel in panels.items():
        name, undrawn = results.names.workload(workload), int((~drawable[workload]).sum())
        title = f"{capitalized(results.metric_of[workload].title)} against {words}"
        low, high = panel["layer"][0]["encoding"]["x"]["scale"]["domain"]
        beyond = sum(not low <= mark["x"] <= high for mark in panel["datasets"]["marks"])
        notes = [
            f"Not drawn, because the {words} is not finite: {counted(undrawn, 'trial')}." if undrawn else "",
            f"Beyond the axis, and drawn at its end: {counted(beyond, 'diverged trial')}." if beyond else "",
        ]
        alt = f"{title} on {name}: {_alt(workload, against, words, results)}"
        note = " ".join(filter(None, notes))
        figures.append(Figure(names[workload], f"{title}: {name}", alt, panel, note, subject=name))
    return figures


def _against(result: ProbeResult, results: Results) -> Against:
    """Return the axis of a probe: GQ's own, else logarithmic if the values are positive and span much."""
    if result.column == GQ:
        return Against()
    values, title = results.trials[result.column], result.probe.replace("_", " ")
    values = values[np.isfinite(values)]
    return Against(result.column, title, bool((values > 0).all()) and needs_log(list(values)), "saturated")


def _alt(workload: str, against: Against, words: str, results: Results) -> str:
    trials, metric, column = results.trials_on[workload], results.metric_of[workload], against.column
    trials = trials[(trials["status"] != "failed") & trials[column].notna()]
    trials = trials[trials[column] > 0] if against.log else trials
    outcomes, flag = trials["outcome"].dropna(), f"{column}.saturated"
    saturated = int(trials[flag].fillna(value=False).sum()) if flag in trials else 0
    texts = [
        f"{counted(len(trials), 'trial')} of {counted(trials['treatment'].nunique(), results.terms.treatment)}",
        f"{words} from {quotient(trials[column].min())} to {quotient(trials[column].max())}",
    ]
    if len(outcomes):
        low, high = (metric.beside_title.text(end) for end in (outcomes.min(), outcomes.max()))
        texts.append(f"{metric.plural} from {low} to {high}")
    diverged = int((trials["status"] == "diverged").sum())
    return f"{', '.join(texts)}; {diverged} diverged, {saturated} with a saturated value."
