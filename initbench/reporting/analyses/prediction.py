"""Does a measurement at initialization predict the outcome?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, counted, quotient
from initbench.comparing.labels import Name, label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.probe_results import ALL_VALUES, ProbeResult, measure, trivial_predictors
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.forest import ForestRow, forest_panel
from initbench.reporting.charts.scatter import Against, scatter_panels
from initbench.reporting.columns import Column
from initbench.reporting.file_names import file_names
from initbench.reporting.frame import GQ
from initbench.reporting.results import as_results
from initbench.reporting.sentence import Sentence
from initbench.reporting.tables import Table
from initbench.reporting.words.prediction import (
    agreement_words,
    association_words,
    foretells_words,
    gain_words,
    predicts_words,
    regret_words,
)
from initbench.reporting.words.sentence import bolded
from initbench.statistics.decisions import adjust
from initbench.statistics.intervals import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from initbench.reporting.analyses.probe_results import ProbeResult
    from initbench.reporting.results import Results


@dataclass(frozen=True)
class Prediction(Analysis):
    """What probes tell of the outcomes.

    The p-values of one question are corrected by Holm for all probes and forms that it is asked of.

    Attributes:
        results: that it is of.
        probes: as from `probe_results.measure`: what each probe tells, with its saturated values and without; the first
            is the one that is drawn.
        workload: label of the only workload on which it is drawn; empty for all.
    """

    results: Results
    probes: Sequence[ProbeResult]
    workload: str = ""
    name: ClassVar[str] = "prediction"

    @property
    def question(self) -> str:
        """As the page asks it."""
        outcome = self.results.terms.outcome
        name = self.probes[0].name if self.probes else "a measurement at initialization"
        return f"Does {name} predict the {outcome}?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Of each probe whether it predicts the outcome, what picking by it costs, what it adds, and the rest."""
        if not self.probes:
            taken = any(probe.get("kind") == "scalar" for record in self.results.records for probe in record.probes)
            nothing = (
                "No measurement at initialization is finite." if taken else "Nothing was measured at initialization."
            )
            return [bolded(nothing, is_open=True)]
        by_probe = [self.of(result) for result in self.probes]
        # Where there are too few treatments several questions have one answer; it is given once.
        return list(dict.fromkeys(sentence for sentences in by_probe for sentence in sentences))

    def of(self, result: ProbeResult) -> list[Sentence]:
        """Return the sentences on one probe in one form.

        Args:
            result: one of `probes`.
        """
        terms, noun, about, name = self.results.terms, self.results.names.noun, subject(result), result.name
        predicted, tested = self._corrected(lambda probe: probe.test.pvalue)[id(result)]
        found = [
            predicts_words(
                name, result.test, result.rho, terms, pvalue=predicted, comparisons=tested, place=noun, subject=about
            )
        ]
        if terms.metric is not None:
            gained, _ = self._corrected(lambda probe: probe.gain.pvalue)[id(result)]
            found.append(regret_words(name, result.chosen[1], terms.metric, terms, place=noun, subject=about))
            found.append(gain_words(name, result.gain, terms, pvalue=gained, subject=about))
        if result.divergence.pairs:
            foretold, _ = self._corrected(lambda probe: probe.divergence.pvalue)[id(result)]
            found.append(foretells_words(name, result.divergence, terms, pvalue=foretold, subject=about))
        most = int(result.by_workload["n"].max()) if len(result.by_workload) else 0
        found.append(agreement_words(name, result.agreement, most, terms, place=noun, subject=about))
        return found

    def _corrected(self, pvalue: Callable[[ProbeResult], float]) -> dict[int, tuple[float | None, int]]:
        return {id(result): (p, number) for result, p, number in corrected(self.probes, pvalue)}

    @cached_property
    def figures(self) -> list[Figure]:
        """The correlations of the first probe by workload, those of all probes, and the outcome against the first."""
        every = probes_figure(self)
        return [*rho_figures(self), *([every] if every is not None else []), *outcome_figures(self)]

    @property
    def remarks(self) -> list[str]:
        """Which workloads cannot be drawn, and what several metrics leave out."""
        if not self.probes:
            return []
        found = []
        drawable = can_be_drawn(self)
        if blank := [workload for workload, own in drawable.items() if not own.any()]:
            places = ", ".join(self.results.names.workload(workload) for workload in blank)
            found.append(f"Not drawn, because {self.probes[0].name} is not finite in any trial: {places}.")
        if self.results.terms.metric is None:
            found.append(
                "The workloads have several metrics, whose values are never put together: what picking by a probe "
                "costs, and what it adds, is left out. Correlations are with outcomes turned so that lower is better."
            )
        return found

    @cached_property
    def tables(self) -> list[Table]:
        """Every probe, and every probe on every workload."""
        return [probes_table(self), correlation_table(self)] if self.probes else [correlation_table(self)]


def predict(results: Results | str | Path, *, probe: str = "", workload: str = "") -> Prediction:
    """Return what measurements at initialization tell of the outcomes.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: that comes first and is drawn; by default the gradient quotient, where it was measured. All are
            analysed, for p-values are corrected for all.
        workload: that is drawn alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such probe or workload.
    """
    results = as_results(results)
    only = label_of(workload, results.names.workloads, "workload") if workload else ""
    probes = measure(results)
    if probe:
        known = {name: Name(name) for name in dict.fromkeys(result.probe for result in probes)}
        first = label_of(probe, known, "probe")
        probes.sort(key=lambda result: result.probe != first)
    return Prediction(results, probes, only)


def corrected(
    probes: Sequence[ProbeResult], pvalue: Callable[[ProbeResult], float]
) -> Iterator[tuple[ProbeResult, float | None, int]]:
    """Yield each probe with its p-value after Holm's correction, and for how many that corrects.

    The p-value is None where there is none or nothing to correct.

    Args:
        probes: that the question is asked of.
        pvalue: of a probe's test.
    """
    values = [pvalue(probe) for probe in probes]
    number = max(1, sum(not math.isnan(p) for p in values))
    for probe, p in zip(probes, adjust(values, "holm"), strict=True):
        yield probe, None if math.isnan(p) or number == 1 else float(p), number


def subject(result: ProbeResult) -> str:
    """Return what a verdict on a probe is of: its name, and the form where there are two."""
    name = result.probe
    return name if result.form == ALL_VALUES and not result.saturated.any() else f"{name}, {result.form}"


_NONE = Estimate(math.nan, math.nan, math.nan, 0)
_CORRELATION = [
    *("probe", "form", "workload", "n", "rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high", "remark"),
    "saturated",
]


def correlation_table(found: Prediction) -> Table:
    """Return the table of one row per probe, form and workload: what `association.associations` has, ``saturated``."""
    terms = found.results.terms
    frames = [
        result.by_workload.assign(
            probe=result.column.removeprefix("probe."),
            form=result.form,
            remark=[terms.say(remark) for remark in result.by_workload["remark"]],
            saturated=result.saturated.reindex(result.by_workload["workload"]).to_numpy(),
        )
        for result in found.probes
    ]
    frame = pd.concat(frames, ignore_index=True)[_CORRELATION] if frames else pd.DataFrame(columns=_CORRELATION)
    columns = [
        Column("Probe", "text", "probe"),
        Column("Values", "text", "form"),
        Column(capitalized(found.results.names.noun), "workload", "workload"),
        Column("Spearman’s ρ", "coefficient", "rho", "rho_low", "rho_high"),
        Column("Kendall’s τ", "coefficient", "tau", "tau_low", "tau_high"),
        Column(f"{capitalized(terms.treatment)}s", "count", "n"),
        Column("Saturated", "count", "saturated"),
        Column("Remark", "text", "remark"),
    ]
    return Table(
        "correlation", f"Every probe on every {found.results.names.noun}", frame, columns, names=found.results.names
    )


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def probes_table(found: Prediction) -> Table:
    """Return the table of every probe.

    There is no mean ρ where there is no test: of fewer than 5 treatments a correlation says nothing.
    """
    results, terms = found.probes, found.results.terms
    rows = []
    pvalues = [result.test.pvalue for result in results]
    corrected = zip(adjust(pvalues, "holm"), adjust(pvalues, "benjamini-hochberg"), strict=True)
    for result, (family_wise, discovery) in zip(results, corrected, strict=True):
        row: dict[str, Any] = {
            "probe": result.column.removeprefix("probe."),
            "form": result.form,
            **_columns("rho", result.rho if result.rho.has_interval and result.test.is_testable else _NONE),
            "treatments": result.rho.n,
            "workloads": result.test.workloads,
            "pvalue": result.test.pvalue,
            "pvalue_holm": family_wise,
            "pvalue_benjamini_hochberg": discovery,
            **_columns("pooled_rho", result.pooled.rho),
            "i_squared": result.pooled.i_squared,
        }
        for k, chosen in result.chosen.items():
            row |= _columns(f"regret_{k}", chosen.regret) | _columns(f"precision_{k}", chosen.precision)
        row |= {
            "regret_at_random": result.chosen[1].regret_at_random.value,
            **_columns("gain", result.gain.gain),
            "gain_pvalue": result.gain.pvalue,
            **_columns("auroc", result.divergence.auroc),
            "auroc_pvalue": result.divergence.pvalue,
            **_columns("seed_agreement", result.agreement),
            "batch_spread": result.spread.value,
            "seconds": result.seconds,
        }
        rows.append(row)
    unit = f",\n{terms.metric.points}" if terms.metric is not None and terms.metric.points else ""
    columns = [
        Column("Probe", "text", "probe"),
        Column("Values", "text", "form"),
        Column("Mean ρ", "coefficient", "rho", "rho_low", "rho_high"),
        Column(f"{capitalized(terms.treatment)}s", "count", "treatments"),
        Column(f"{capitalized(found.results.names.noun)}s", "count", "workloads"),
        Column("p (Holm)", "probability", "pvalue_holm"),
        Column("p (BH)", "probability", "pvalue_benjamini_hochberg"),
        Column("Precision@1", "share", "precision_1", "precision_1_low", "precision_1_high"),
        Column(f"Regret@1{unit}", "difference", "regret_1", "regret_1_low", "regret_1_high"),
        Column(f"Regret@3{unit}", "difference", "regret_3", "regret_3_low", "regret_3_high"),
        Column(f"at random{unit}", "difference", "regret_at_random"),
        Column("Gain in rank,\npoints", "points", "gain", "gain_low", "gain_high"),
        Column("AUROC,\ndivergence", "share", "auroc", "auroc_low", "auroc_high"),
        Column("ρ between\nseeds", "coefficient", "seed_agreement", "seed_agreement_low", "seed_agreement_high"),
        Column("Spread between\nbatches", "percent", "batch_spread"),
        Column("Time to\nmeasure", "duration", "seconds"),
    ]
    several = f"{terms.treatment}s"
    return Table(
        "probes",
        "Every probe",
        pd.DataFrame(rows),
        columns,
        f"Mean ρ: over workloads, its interval over {several}; p-values permute the {several}’ labels jointly over all "
        "workloads and are corrected for the number of rows by Holm, or Benjamini and Hochberg. Precision@k and "
        f"regret@k: taking the k {several} with the best values. For GQ these are the lowest; for others the direction "
        f"is learned on other architectures, by which even a probe without meaning beats a random choice among these "
        f"{several}. Gain: by how much the predicted rank is nearer on architectures that were left out than without "
        f"the probe, knowing {', '.join(trivial_predictors(found.results).values())}.{terms.exchange}",
        {metric.name: metric for metric in [terms.metric] if metric is not None},
    )


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
