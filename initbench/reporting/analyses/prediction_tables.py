"""The tables of the prediction: every probe, and every probe on every workload."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.analyses.probe_results import trivial_predictors
from initbench.reporting.formatting import capitalized
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.multiplicity import adjust
from initbench.reporting.tables import Column, Table

if TYPE_CHECKING:
    from initbench.reporting.analyses.prediction import Prediction

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
