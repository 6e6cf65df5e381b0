"""The figures and tables of the comparison over workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from initbench.reporting.forest import ForestRow, forest_panel
from initbench.reporting.formatting import capitalized, listed
from initbench.reporting.parts import Column, Figure, Remark, Table
from initbench.reporting.profile_chart import profile_panel
from initbench.reporting.statistics.comparison_verdicts import difference_verdict
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.paired import in_direction
from initbench.reporting.statistics.profiles import performance_profiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric
    from initbench.reporting.statistics.divergence import DivergenceRate
    from initbench.reporting.statistics.paired import PairedComparison
    from initbench.reporting.statistics.ranks import RankComparison
    from initbench.reporting.statistics.wording import Terms

    Against = Sequence[tuple[Metric, Mapping[str, PairedComparison]]]
    """For each metric the comparison of each treatment with the one that ranks best."""

_DIFFERENCES = [
    *("treatment", "mean_rank", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high"),
    *("workloads", "rate", "rate_low", "rate_high", "trials", "trials_diverged"),
]


def comparison_figures(
    against: Against, outcomes: pd.DataFrame, ranks: RankComparison, colours: Mapping[str, str], terms: Terms
) -> list[Figure | Table | Remark]:
    """Return the forest of mean differences, the critical-difference diagram and the performance profile.

    Where there are several metrics a remark stands in the place of the first and the last.

    Args:
        against: for each metric, every treatment that is ranked against the best.
        outcomes: workloads × treatments without gaps, oriented.
        ranks: of these.
        colours: as from `charts.colours`.
        terms: of the comparison.
    """
    diagram = _rank_forest(ranks, terms)
    if terms.metric is None:
        titles = listed([metric.title for metric, _ in against])
        return [
            Remark(
                f"The workloads have several metrics ({titles}), whose values are never put together: there is no "
                "forest of mean differences and no performance profile over all of them."
            ),
            *diagram,
        ]
    [(metric, comparisons)] = against
    reference = str(ranks.mean_ranks.index[0])
    forest = _difference_forest(reference, comparisons, metric, terms)
    return [*forest, *diagram, *_profile(outcomes, colours, metric)]


def _difference_forest(
    reference: str, against: Mapping[str, PairedComparison], metric: Metric, terms: Terms
) -> list[Figure | Table | Remark]:
    rows = []
    for name, comparison in against.items():
        found = _shown(comparison.difference, metric)
        scaled = found._replace(
            value=metric.scale * found.value, low=metric.scale * found.low, high=metric.scale * found.high
        )
        rows.append(ForestRow(name, scaled, difference_verdict(name, reference, comparison, metric)))
    unit = metric.difference_unit or metric.unit
    drawing = forest_panel(rows, f"{metric.title} less that of {reference}" + (f" ({unit})" if unit else ""))
    if drawing is None:
        one = f"with each other {terms.treatment}, one or both diverged somewhere."
        return [Remark(f"No mean differences to {reference}: {one}")]
    missing = [row.label for row in rows if np.isnan(row.estimate.value)]
    note = "Mean over the workloads of the paired differences, with simultaneous 95 % intervals over the workloads."
    note += f" Not drawn, because a trial diverged: {', '.join(missing)}." if missing else ""
    alt = " ".join(row.words for row in rows)
    return [Figure("differences", f"Differences to {reference}, which ranks best", alt, drawing, note)]


def _shown(difference: Estimate, metric: Metric) -> Estimate:
    """Return a difference of oriented outcomes in the metric's own direction, its interval within what there can be."""
    return difference.in_direction(metric).clipped(-metric.largest_difference, metric.largest_difference)


def _rank_forest(ranks: RankComparison, terms: Terms) -> list[Figure | Table | Remark]:
    if np.isnan(ranks.critical_difference):
        return [Remark(f"No critical-difference diagram: {terms.say(ranks.reason)}.")] if ranks.reason else []
    half = ranks.critical_difference / 2
    rows = [
        ForestRow(str(name), Estimate(mean, mean - half, mean + half, ranks.workloads), f"{name}: mean rank {mean:.2f}")
        for name, mean in ranks.mean_ranks.items()
    ]
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, n = {ranks.workloads} workloads): two "
        f"{terms.treatment}s whose bars do not overlap differ by more than that."
    )
    alt = "; ".join(row.words for row in rows)
    return [] if drawing is None else [Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)]


def _profile(outcomes: pd.DataFrame, colours: Mapping[str, str], metric: Metric) -> list[Figure | Table | Remark]:
    from_best = metric.best is not None and metric.best != 0
    costs = outcomes - metric.oriented(metric.best or 0.0)
    if (metric.better == "higher" and metric.best is None) or (costs < 0).to_numpy().any():
        return [Remark(f"No performance profile: the {metric.title} has no best value to measure from.")]
    profiles = performance_profiles(costs)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    what = f"distance of the {metric.title} from {metric.text(metric.best or 0.0)}" if from_best else metric.title
    least = "least" if from_best else "lowest"
    note = f"On what share of the workloads the median {what} is within a factor of the {least}; diverged is a miss."
    drawing = profile_panel(profiles, f"{what} over the {least} of the workload, log scale", colours)
    return [Figure("profile-outcome", f"Performance profile: {metric.title}", f"{note} {best}.", drawing, note)]


def differences_table(
    reference: str,
    against: Against,
    further: Against,
    ranks: RankComparison,
    rates: Mapping[str, DivergenceRate],
    terms: Terms,
) -> Table:
    """Return the table of every treatment over the workloads.

    Args:
        reference: the treatment that ranks best.
        against: every other one that is ranked.
        further: those that the ranking leaves out, on the workloads that they have.
        ranks: of the ranked ones.
        rates: how often each of them diverges.
        terms: of the comparison.
    """
    metric, one = terms.metric, {}
    if metric is not None:
        one = {name: comparison for _, found in [*against, *further] for name, comparison in found.items()}
    rows = []
    for name in [*ranks.mean_ranks.index, *(name for name in further[0][1])]:
        rate = rates[str(name)]
        row = {"treatment": name, "mean_rank": ranks.mean_ranks.get(name, np.nan), "workloads": rate.workloads.n}
        row |= {"rate": rate.workloads.value, "rate_low": rate.workloads.low, "rate_high": rate.workloads.high}
        row |= {"trials": rate.trials, "trials_diverged": rate.diverged}
        if metric is not None and (comparison := one.get(str(name))):
            difference, chance = _shown(comparison.difference, metric), comparison.probability_of_improvement
            row |= {
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
            row |= {"improvement": chance.value, "improvement_low": chance.low, "improvement_high": chance.high}
        rows.append(row)
    columns = [Column(capitalized(terms.treatment), "text", "treatment"), Column("Mean rank", "share", "mean_rank")]
    note = ""
    if metric is not None:
        columns += [
            Column(_less(metric, reference), "difference", "difference", "difference_low", "difference_high"),
            Column("Probability of\nimprovement", "share", "improvement", "improvement_low", "improvement_high"),
        ]
        unit = f" in {metric.difference_unit or metric.unit}" if metric.unit else ""
        note = (
            f"Differences{unit}, and the probability that a run has a {metric.better} {metric.quantity} than one of "
            f"{reference}; intervals are simultaneous 95 % intervals over the workloads. "
        )
    columns += [
        Column("Its\nworkloads", "count", "workloads"),
        Column("Diverged on", "percent", "rate", "rate_low", "rate_high"),
    ]
    return Table(
        "differences",
        f"Every {terms.treatment} against {reference} over the workloads",
        pd.DataFrame(rows).reindex(columns=_DIFFERENCES),
        columns,
        f"{note}Diverged: on what share of its "
        f"workloads at least one seed did, with Wilson's interval, simultaneous over the {terms.treatment}s.",
        {metric.name: metric for metric in [metric] if metric is not None},
    )


def _less(metric: Metric, reference: str) -> str:
    return f"{capitalized(metric.title)} less\nthat of {reference}"


def paired_table(reference: str, pairs: Sequence[tuple[Metric, str, PairedComparison]], terms: Terms) -> Table:
    """Return the table of every treatment against the best on each workload.

    Args:
        reference: the treatment that ranks best.
        pairs: metric, treatment and its comparison.
        terms: of the comparison.
    """
    frames = [
        in_direction(comparison.by_workload, metric).assign(treatment=name, metric=metric.name)
        for metric, name, comparison in pairs
    ]
    what = f"Outcome less\nthat of {reference}" if terms.metric is None else _less(terms.metric, reference)
    columns = [
        Column("Workload", "text", "workload"),
        Column(capitalized(terms.treatment), "text", "treatment"),
        Column(what, "difference", "difference", "low", "high"),
        Column("Median\ndifference", "difference", "median"),
        Column("Probability of\nimprovement", "share", "probability_of_improvement"),
        Column("Seeds", "count", "seeds"),
        Column("Pairs with a\ndiverged trial", "count", "diverged"),
    ]
    frame = pd.concat(frames, ignore_index=True)
    unit = "" if terms.metric is None else terms.metric.difference_unit or terms.metric.unit
    return Table(
        "paired_differences",
        f"Every {terms.treatment} against {reference} on each workload, seed by seed",
        frame[["workload", "treatment", *(c for c in frame if c not in {"workload", "treatment"})]],
        columns,
        (f"In {unit}; intervals" if unit else "Intervals")
        + f" over seeds are simultaneous over all pairs of {terms.treatment}s. No mean where a trial diverged.",
        {metric.name: metric for metric, _, _ in pairs},
    )


def pairs_table(ranks: RankComparison, terms: Terms) -> Table:
    """Return the table of all pairs of mean ranks."""
    columns = [
        Column(capitalized(terms.treatment), "text", "first"),
        Column("behind it", "text", "second"),
        Column("Difference of\nmean ranks", "share", "difference", "low", "high"),
        Column("p (Holm)", "probability", "pvalue"),
    ]
    return Table("rank_pairs", f"Pairs of {terms.treatment}s by mean rank", ranks.pairs, columns)
