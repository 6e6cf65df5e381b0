"""Which initializer is better?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.reporting.forest import ForestRow, forest_panel
from initbench.reporting.parts import Answer, Column, Figure, Remark, Section, Table
from initbench.reporting.profile_chart import profile_panel
from initbench.reporting.statistics.cells import Complete, cells, complete, table
from initbench.reporting.statistics.comparison_verdicts import (
    difference_verdict,
    divergence_rate_verdict,
    rank_verdict,
    variance_verdict,
)
from initbench.reporting.statistics.divergence import divergence_rate
from initbench.reporting.statistics.intervals import Estimate
from initbench.reporting.statistics.paired import PairedComparison, compare_paired
from initbench.reporting.statistics.profiles import performance_profiles
from initbench.reporting.statistics.ranks import RankComparison, compare_ranks
from initbench.reporting.statistics.variance import split_variance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_EVERYWHERE = "over all workloads"
_DIFFERENCES = [
    *("initializer", "mean_rank", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high"),
    *("workloads", "rate", "rate_low", "rate_high", "trials", "trials_diverged"),
]
_SMALLEST = 2  # workloads, below which there is nothing to compare over


class Ranking(NamedTuple):
    """Initializers ranked over the workloads on which all of them ran.

    Attributes:
        cells: of all workloads, as from `statistics.cells.cells`.
        whole: their outcomes without gaps.
        ranks: of these.
    """

    cells: pd.DataFrame
    whole: Complete
    ranks: RankComparison


def rank(trials: pd.DataFrame) -> Ranking:
    """Return the initializers ranked over workloads.

    Args:
        trials: as from `comparison.comparable_trials`.
    """
    compared = cells(trials)
    whole = complete(table(compared))
    return Ranking(compared, whole, compare_ranks(whole.table))


def initializer_answers(
    trials: pd.DataFrame, ranking: Ranking, colours: Mapping[str, str], by_workload: Sequence[Answer]
) -> Section:
    """Return what the trials say of the initializers over all workloads together.

    The differences are of every initializer against the one with the least mean rank. That one was chosen from the same
    trials, so that the intervals are simultaneous over all pairs. Those of the rates of divergence are simultaneous
    over the initializers. Workloads on which not every initializer ran are left out of all but these rates.

    Args:
        trials: as from `comparison.comparable_trials`.
        ranking: of them, as from `rank`.
        colours: as from `charts.colours`.
        by_workload: the verdict of each workload that compares something.
    """
    compared, whole, ranks = ranking
    names = [str(name) for name in ranks.mean_ranks.index]
    pairs = len(names) * (len(names) - 1) // 2
    everywhere = trials[trials["group"].isin(whole.table.index)]
    against = {name: compare_paired(everywhere, name, names[0], comparisons=pairs) for name in names[1:]}
    over: list[Answer] = []
    parts: list[Figure | Table | Remark] = []
    if against and len(whole.table) >= _SMALLEST:
        over = [
            Answer(_EVERYWHERE, rank_verdict(ranks)),
            Answer(_EVERYWHERE, difference_verdict(names[1], names[0], against[names[1]])),
        ]
        parts = [*_difference_forest(names[0], against), *_rank_forest(ranks), *_profile(whole.table, colours)]
        parts.append(_differences(names[0], against, ranks, compared))
        if len(ranks.pairs):
            parts.append(_pairs(ranks))
    if against:
        parts.append(_paired(names[0], against))
    if left := left_out(whole):
        parts.append(Remark(left))
    details = [answer._replace(is_detail=bool(over) or i > 0) for i, answer in enumerate(by_workload)]
    questions = {
        "Which initializer is better?": [*over, *details],
        "Which initializers diverge?": _divergence(compared),
        "What does the test error depend on?": [Answer(_EVERYWHERE, variance_verdict(split_variance(trials)))],
    }
    return Section({question: answers for question, answers in questions.items() if answers}, parts)


def _divergence(compared: pd.DataFrame) -> list[Answer]:
    names = [str(name) for name in dict.fromkeys(compared["initializer"])]
    rates = {name: divergence_rate(compared, name, comparisons=len(names)) for name in names}
    some = {name: rate for name, rate in rates.items() if rate.diverged}
    if rates and not some:
        return [Answer(_EVERYWHERE, f"No trial diverged, of {sum(rate.trials for rate in rates.values())}.")]
    most = sorted(some, key=lambda name: (-some[name].workloads.value, -some[name].diverged))
    return [Answer(name, divergence_rate_verdict(name, some[name]), i > 0) for i, name in enumerate(most)]


def _difference_forest(reference: str, against: Mapping[str, PairedComparison]) -> list[Figure | Table | Remark]:
    rows = []
    for name, comparison in against.items():
        estimate = comparison.difference.clipped(-1, 1)
        scaled = estimate._replace(value=100 * estimate.value, low=100 * estimate.low, high=100 * estimate.high)
        rows.append(ForestRow(name, scaled, difference_verdict(name, reference, comparison)))
    drawing = forest_panel(rows, f"test error less that of {reference} (percentage points)")
    if drawing is None:
        return [
            Remark(f"No mean differences to {reference}: with each other initializer, one or both diverged somewhere.")
        ]
    missing = [row.label for row in rows if np.isnan(row.estimate.value)]
    note = "Mean over the workloads of the paired differences, with simultaneous 95 % intervals over the workloads."
    note += f" Not drawn, because a trial diverged: {', '.join(missing)}." if missing else ""
    alt = " ".join(row.words for row in rows)
    return [Figure("differences", f"Differences to {reference}, which ranks best", alt, drawing, note)]


def _rank_forest(ranks: RankComparison) -> list[Figure | Table | Remark]:
    if np.isnan(ranks.critical_difference):
        return [Remark(f"No critical-difference diagram: {ranks.reason}.")] if ranks.reason else []
    half = ranks.critical_difference / 2
    rows = [
        ForestRow(str(name), Estimate(mean, mean - half, mean + half, ranks.workloads), f"{name}: mean rank {mean:.2f}")
        for name, mean in ranks.mean_ranks.items()
    ]
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, n = {ranks.workloads} workloads): two "
        "initializers whose bars do not overlap differ by more than that."
    )
    alt = "; ".join(row.words for row in rows)
    return [] if drawing is None else [Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)]


def _profile(outcomes: pd.DataFrame, colours: Mapping[str, str]) -> list[Figure | Table | Remark]:
    profiles = performance_profiles(outcomes)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    note = "On what share of the workloads the median test error is within a factor of the lowest; diverged is a miss."
    drawing = profile_panel(profiles, "test error over the lowest of the workload, log scale", colours)
    return [Figure("profile-error", "Performance profile: test error", f"{note} {best}.", drawing, note)]


def _differences(
    reference: str, against: Mapping[str, PairedComparison], ranks: RankComparison, compared: pd.DataFrame
) -> Table:
    rows = []
    for name, mean_rank in ranks.mean_ranks.items():
        rate = divergence_rate(compared, str(name), comparisons=compared["initializer"].nunique())
        row = {"initializer": name, "mean_rank": mean_rank, "workloads": rate.workloads.n}
        row |= {"rate": rate.workloads.value, "rate_low": rate.workloads.low, "rate_high": rate.workloads.high}
        row |= {"trials": rate.trials, "trials_diverged": rate.diverged}
        if comparison := against.get(str(name)):
            difference, chance = comparison.difference.clipped(-1, 1), comparison.probability_of_improvement
            row |= {
                "difference": difference.value,
                "difference_low": difference.low,
                "difference_high": difference.high,
            }
            row |= {"improvement": chance.value, "improvement_low": chance.low, "improvement_high": chance.high}
        rows.append(row)
    columns = [
        Column("Initializer", "text", "initializer"),
        Column("Mean rank", "share", "mean_rank"),
        Column(f"Test error less\nthat of {reference}", "points", "difference", "difference_low", "difference_high"),
        Column("Probability of\nimprovement", "share", "improvement", "improvement_low", "improvement_high"),
        Column("Its\nworkloads", "count", "workloads"),
        Column("Diverged on", "percent", "rate", "rate_low", "rate_high"),
    ]
    frame = pd.DataFrame(rows)
    return Table(
        "differences",
        f"Every initializer against {reference} over the workloads",
        frame.reindex(columns=_DIFFERENCES),
        columns,
        "Differences in percentage points, and the probability that a run has a lower error than one of "
        f"{reference}; intervals are simultaneous 95 % intervals over the workloads. Diverged: on what share of its "
        "workloads at least one seed did, with Wilson's interval, simultaneous over the initializers.",
    )


def _paired(reference: str, against: Mapping[str, PairedComparison]) -> Table:
    frames = [comparison.by_workload.assign(initializer=name) for name, comparison in against.items()]
    columns = [
        Column("Workload", "text", "group"),
        Column("Initializer", "text", "initializer"),
        Column(f"Test error less\nthat of {reference}", "points", "difference", "low", "high"),
        Column("Median\ndifference", "points", "median"),
        Column("Probability of\nimprovement", "share", "probability_of_improvement"),
        Column("Seeds", "count", "seeds"),
        Column("Pairs with a\ndiverged trial", "count", "diverged"),
    ]
    frame = pd.concat(frames, ignore_index=True)
    return Table(
        "paired_differences",
        f"Every initializer against {reference} on each workload, seed by seed",
        frame[["group", "initializer", *(c for c in frame if c not in {"group", "initializer"})]],
        columns,
        "In percentage points; intervals over seeds are simultaneous over all pairs of initializers. No mean where a "
        "trial diverged.",
    )


def _pairs(ranks: RankComparison) -> Table:
    columns = [
        Column("Initializer", "text", "first"),
        Column("behind it", "text", "second"),
        Column("Difference of\nmean ranks", "share", "difference", "low", "high"),
        Column("p (Holm)", "probability", "pvalue"),
    ]
    return Table("rank_pairs", "Pairs of initializers by mean rank", ranks.pairs, columns)


def left_out(whole: Complete) -> str:
    """Return what a comparison over workloads lacks, as a sentence, empty where nothing was left out."""
    left = [f"workloads {', '.join(whole.workloads)}"] if whole.workloads else []
    left += [f"initializers {', '.join(whole.initializers)}"] if whole.initializers else []
    if not left:
        return ""
    return (
        f"Left out where workloads are put together, because not every initializer ran everywhere: {'; '.join(left)}."
    )
