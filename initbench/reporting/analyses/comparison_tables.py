"""The tables of the comparison: over all workloads, on each, and of mean ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from initbench.reporting.analyses.comparison_figures import shown
from initbench.reporting.formatting import capitalized
from initbench.reporting.statistics.paired import in_direction
from initbench.reporting.tables import Column, Table

if TYPE_CHECKING:
    from initbench.metric import Metric
    from initbench.reporting.analyses.comparison import Comparison

_DIFFERENCES = [
    *("treatment", "mean_rank", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high"),
    *("workloads", "rate", "rate_low", "rate_high", "trials", "trials_diverged"),
]


def differences_table(found: Comparison) -> Table:
    """Return the table of every treatment over the workloads."""
    results, ranks, rates = found.results, found.ranking.ranks, found.rates
    terms, noun = results.terms, results.names.noun
    reference, metric, one = found.reference, terms.metric, {}
    if metric is not None:
        one = {name: comparison for _, own in [*found.against, *found.further] for name, comparison in own.items()}
    rows = []
    for name in [*ranks.mean_ranks.index, *(name for name in found.further[0][1])]:
        rate = rates[str(name)]
        row = {"treatment": name, "mean_rank": ranks.mean_ranks.get(name, np.nan), "workloads": rate.workloads.n}
        row |= {"rate": rate.workloads.value, "rate_low": rate.workloads.low, "rate_high": rate.workloads.high}
        row |= {"trials": rate.trials, "trials_diverged": rate.diverged}
        if metric is not None and (comparison := one.get(str(name))):
            difference, chance = shown(comparison.difference, metric), comparison.probability_of_improvement
            row |= {
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
            row |= {"improvement": chance.value, "improvement_low": chance.low, "improvement_high": chance.high}
        rows.append(row)
    columns = [
        Column(capitalized(terms.treatment), "treatment", "treatment"),
        Column("Mean rank", "share", "mean_rank"),
    ]
    note = ""
    best = results.names.treatment(reference)
    if metric is not None:
        columns += [
            Column(_less(metric, best), "difference", "difference", "difference_low", "difference_high"),
            Column("Probability of\nimprovement", "share", "improvement", "improvement_low", "improvement_high"),
        ]
        unit = f" in {metric.difference_unit or metric.unit}" if metric.unit else ""
        note = (
            f"Differences{unit}, and the probability that a run has a {metric.better} {metric.quantity} than one of "
            f"{best}; intervals are simultaneous 95 % intervals over the {noun}s. "
        )
    columns += [
        Column(f"Its\n{noun}s", "count", "workloads"),
        Column("Diverged on", "percent", "rate", "rate_low", "rate_high"),
    ]
    return Table(
        "differences",
        f"Every {terms.treatment} against {best} over the {noun}s",
        pd.DataFrame(rows).reindex(columns=_DIFFERENCES),
        columns,
        f"{note}Diverged: on what share of its {noun}s at least one seed did, with Wilson's interval, simultaneous "
        f"over the {terms.treatment}s.{_test(found)}",
        {metric.name: metric for metric in [metric] if metric is not None},
        results.names,
    )


def _test(found: Comparison) -> str:
    """Return Friedman's test, as a sentence, where there is one."""
    ranks = found.ranking.ranks
    if np.isnan(ranks.pvalue):
        return ""
    return (
        f" Mean ranks over {found.results.names.workloads_of(ranks.workloads)}: Friedman's χ² = {ranks.statistic:.1f} "
        f"with {len(ranks.mean_ranks) - 1} degrees of freedom, p = {ranks.pvalue:.2g}; what did not train "
        "shares the worst rank but for what diverged."
    )


def _less(metric: Metric, reference: str) -> str:
    return f"{capitalized(metric.title)} less\nthat of {reference}"


def paired_table(found: Comparison) -> Table:
    """Return the table of every treatment against the best on each workload."""
    results = found.results
    terms, noun = results.terms, results.names.noun
    reference = results.names.treatment(found.reference)
    pairs = [
        (metric, name, comparison)
        for metric, own in [*found.against, *found.further]
        for name, comparison in own.items()
    ]
    frames = [
        in_direction(comparison.by_workload, metric).assign(treatment=name, metric=metric.name)
        for metric, name, comparison in pairs
    ]
    what = f"Outcome less\nthat of {reference}" if terms.metric is None else _less(terms.metric, reference)
    columns = [
        Column(capitalized(noun), "workload", "workload"),
        Column(capitalized(terms.treatment), "treatment", "treatment"),
        Column(what, "difference", "difference", "low", "high"),
        Column("Median\ndifference", "difference", "median"),
        Column("Probability of\nimprovement", "share", "probability_of_improvement"),
        Column("Seeds", "count", "seeds"),
        Column("Pairs with a\ndiverged trial", "count", "diverged"),
    ]
    frame = pd.concat(frames, ignore_index=True)
    simultaneous = f"the {terms.treatment}s" if found.given else f"all pairs of {terms.treatment}s"
    unit = "" if terms.metric is None else terms.metric.difference_unit or terms.metric.unit
    return Table(
        "paired_differences",
        f"Every {terms.treatment} against {reference} on each {noun}, seed by seed",
        frame[["workload", "treatment", *(c for c in frame if c not in {"workload", "treatment"})]],
        columns,
        (f"In {unit}; intervals" if unit else "Intervals")
        + f" over seeds are simultaneous over {simultaneous}. No mean where a trial diverged.",
        {metric.name: metric for metric, _, _ in pairs},
        results.names,
    )


def pairs_table(found: Comparison) -> Table:
    """Return the table of all pairs of mean ranks."""
    treatment = found.results.terms.treatment
    columns = [
        Column(capitalized(treatment), "treatment", "first"),
        Column("behind it", "treatment", "second"),
        Column("Difference of\nmean ranks", "share", "difference", "low", "high"),
        Column("p (Holm)", "probability", "pvalue"),
    ]
    pairs = found.ranking.ranks.pairs
    return Table("rank_pairs", f"Pairs of {treatment}s by mean rank", pairs, columns, names=found.results.names)
