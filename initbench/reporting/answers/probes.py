"""Does a measurement at initialization predict the outcome?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.answers.probe_results import ALL_VALUES
from initbench.reporting.forest import ForestRow, forest_panel
from initbench.reporting.formatting import capitalized
from initbench.reporting.parts import Answer, Column, Figure, Remark, Section, Table
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.multiplicity import adjust
from initbench.reporting.statistics.prediction_verdicts import (
    agreement_verdict,
    divergence_verdict,
    gain_verdict,
    prediction_verdict,
    regret_verdict,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from initbench.reporting.answers.probe_results import ProbeResult
    from initbench.reporting.statistics.wording import Terms


def probe_answers(results: Sequence[ProbeResult], terms: Terms, trivial: Iterable[str] = ()) -> Section:
    """Return the verdicts on the probes, the forest plot of the first, and a table of all.

    The p-values of one question are corrected by Holm for all probes and forms that it is asked of.

    Args:
        results: as from `measure`.
        terms: of the comparison.
        trivial: in words, what a probe has to add something to (`probe_results.trivial_predictors`).
    """
    if not results:
        return Section(parts=[Remark("No trial has a probe.")])
    first, metric = results[0], terms.metric
    diverged = [result for result in results if result.divergence.pairs]
    answers = {
        f"Does a measurement at initialization predict the {terms.outcome}?": [
            Answer(
                subject(result),
                prediction_verdict(result.name, result.test, result.rho, terms, p, m),
                result is not first,
            )
            for result, p, m in _corrected(results, [result.test.pvalue for result in results])
        ],
        f"What does it cost to pick {terms.one} by it?": [
            Answer(subject(result), regret_verdict(result.name, result.chosen[1], metric, terms), result is not first)
            for result in results
            if metric is not None
        ],
        "Does it add anything to what is known without it?": [
            Answer(subject(result), gain_verdict(result.name, result.gain, terms, p), result is not first)
            for result, p, _ in _corrected(results, [result.gain.pvalue for result in results])
            if metric is not None
        ],
        "Does it foretell divergence?": [
            Answer(
                subject(result), divergence_verdict(result.name, result.divergence, terms, p), result is not diverged[0]
            )
            for result, p, _ in _corrected(diverged, [result.divergence.pvalue for result in diverged])
        ],
        "Does it agree with itself?": [
            Answer(subject(result), agreement_verdict(result.name, result.agreement, terms), result is not first)
            for result in results
        ],
    }
    figures = [figure for result in results[:2] if result.column == first.column and (figure := _forest(result, terms))]
    parts: list[Figure | Table | Remark] = [*figures, _table(results, terms, trivial)]
    if metric is None:
        parts.append(
            Remark(
                "The workloads have several metrics, whose values are never put together: what picking by a probe "
                "costs, and what it adds, is left out. Correlations are with outcomes turned so that lower is better."
            )
        )
    return Section({question: own for question, own in answers.items() if own}, parts)


def _corrected(
    results: Sequence[ProbeResult], pvalues: Sequence[float]
) -> Iterator[tuple[ProbeResult, float | None, int]]:
    """Yield each result with its p-value after Holm's correction, and for how many that corrects.

    The p-value is None where there is none or nothing to correct.
    """
    number = max(1, sum(not math.isnan(p) for p in pvalues))
    for result, p in zip(results, adjust(pvalues, "holm"), strict=True):
        yield result, None if math.isnan(p) or number == 1 else float(p), number


def correlation_frame(results: Sequence[ProbeResult], terms: Terms) -> pd.DataFrame:
    """Return one row per probe, form and workload: ``probe, form``, what `association.associations` has, ``saturated``.

    Args:
        results: as from `measure`.
        terms: of the comparison.
    """
    columns = ["probe", "form", "workload", "n", "rho", "rho_low", "rho_high", "tau", "tau_low", "tau_high", "remark"]
    frames = [
        result.by_workload.assign(
            probe=result.column.removeprefix("probe."),
            form=result.form,
            remark=[terms.say(remark) for remark in result.by_workload["remark"]],
            saturated=result.saturated.reindex(result.by_workload["workload"]).to_numpy(),
        )
        for result in results
    ]
    if not frames:
        return pd.DataFrame(columns=[*columns, "saturated"])
    return pd.concat(frames, ignore_index=True)[[*columns, "saturated"]]


def association_words(row: Mapping[Hashable, Any], terms: Terms, left_out: int = 0) -> str:
    """Return what one workload says of a probe: ρ with its interval and n, or why there is none.

    Args:
        row: of `association.associations` or `correlation_frame`.
        terms: of the comparison.
        left_out: treatments that are left out because their values are saturated.
    """
    left = f"; {left_out} left out, saturated" if left_out else ""
    if row["remark"]:
        return f"Spearman’s ρ: {terms.say(row['remark'])}{left}"
    ends = f"95 % interval {row['rho_low']:+.2f} to {row['rho_high']:+.2f}"
    return f"Spearman’s ρ = {row['rho']:+.2f} ({ends}, n = {row['n']} {terms.treatment}s){left}"


def subject(result: ProbeResult) -> str:
    """Return what a verdict on a probe is of: its name, and the form where there are two."""
    name = result.column.removeprefix("probe.")
    return name if result.form == ALL_VALUES and not result.saturated.any() else f"{name}, {result.form}"


def _forest(result: ProbeResult, terms: Terms) -> Figure | None:
    rows = [
        ForestRow(row["workload"], _estimate(row), f"{row['workload']}: {association_words(row, terms)}")
        for row in result.by_workload.to_dict("records")
    ]
    note = f"Spearman’s ρ over the {terms.treatment}s of each workload, with its 95 % interval."
    drawn = sum(math.isfinite(row.estimate.value) for row in rows)
    if math.isfinite(result.rho.value) and drawn > 1:
        words = _pooled_words("mean ρ", result.rho, f"{terms.treatment}s")
        rows.append(ForestRow(f"mean, over {terms.treatment}s", result.rho, words, pooled=True))
        pooled = result.pooled
        if pooled.rho.has_interval:
            words = _pooled_words("pooled ρ", pooled.rho, "workloads")
            rows.append(ForestRow("pooled, over workloads", pooled.rho, words, pooled=True))
            note += (
                f" Pooled by random effects (Hartung and Knapp): I² = {100 * pooled.i_squared:.0f} %, τ² = "
                f"{pooled.tau_squared:.2f}; its interval is about more workloads for these {terms.treatment}s. The "
                f"other diamond’s is about more {terms.treatment}s, and is what the verdict uses."
            )
    if drawn < len(result.by_workload):
        note += f" {len(result.by_workload) - drawn} workload(s) without a ρ are not drawn."
    drawing = forest_panel(rows, "Spearman’s ρ", domain=(-1.0, 1.0))
    if drawing is None:
        return None
    suffix = "" if result.form == ALL_VALUES and not result.saturated.any() else f", {result.form}"
    alt = " ".join(f"{row.words}." for row in rows if math.isfinite(row.estimate.value))
    name = "forest" if result.form != ALL_VALUES or not suffix else "forest-all-values"
    return Figure(name, f"{capitalized(terms.outcome)} against {result.name}{suffix}", alt, drawing, note)


def _pooled_words(what: str, estimate: Estimate, unit: str) -> str:
    ends = f"95 % interval {estimate.low:+.2f} to {estimate.high:+.2f}, " if estimate.has_interval else ""
    return f"{what} {estimate.value:+.2f} ({ends}n = {estimate.n} {unit})"


def _estimate(row: Mapping[Hashable, Any]) -> Estimate:
    return Estimate(row["rho"], row["rho_low"], row["rho_high"], row["n"])


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _table(results: Sequence[ProbeResult], terms: Terms, trivial: Iterable[str]) -> Table:
    rows = []
    pvalues = [result.test.pvalue for result in results]
    corrected = zip(adjust(pvalues, "holm"), adjust(pvalues, "benjamini-hochberg"), strict=True)
    for result, (family_wise, discovery) in zip(results, corrected, strict=True):
        row: dict[str, Any] = {
            "probe": result.column.removeprefix("probe."),
            "form": result.form,
            **_columns("rho", result.rho if result.rho.has_interval else result.rho._replace(value=math.nan)),
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
        Column("Workloads", "count", "workloads"),
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
        f"the probe, knowing {', '.join(trivial)}.{terms.exchange}",
        {metric.name: metric for metric in [terms.metric] if metric is not None},
    )
