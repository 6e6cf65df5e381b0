"""Which treatment is better, over all workloads and on each?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, listed, natural
from initbench.comparing.labels import label_of
from initbench.comparing.metrics import UNKNOWN
from initbench.errors import InitbenchError
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.heat_cells import order_of
from initbench.reporting.analyses.lead import find_lead
from initbench.reporting.analyses.ranking import Ranking, rank
from initbench.reporting.analyses.workloads import workloads
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.forest import ForestRow, forest_panel
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.columns import Column
from initbench.reporting.results import as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import Table
from initbench.reporting.words.comparison import left_out_words, pair_over_workloads_words, ranks_words
from initbench.reporting.words.lead import lead_words
from initbench.reporting.words.sentence import bolded
from initbench.statistics.cells import table, trial_outcomes
from initbench.statistics.divergence import divergence_rates
from initbench.statistics.intervals import Estimate
from initbench.statistics.paired import PairedComparison, by_seed, compare_columns, in_direction
from initbench.statistics.profiles import performance_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.metric import Metric
    from initbench.reporting.results import Results


Against = Sequence[tuple["Metric", Mapping[str, PairedComparison]]]
"""For each metric the comparison of each treatment with the one that ranks best."""
_SMALLEST = 2  # workloads, below which there is nothing to compare over


@dataclass(frozen=True)
class Comparison(Analysis):
    """Treatments over all workloads together.

    The differences are of every treatment against the one with the least mean rank. That one was chosen from the same
    trials, so that the intervals are simultaneous over all pairs. Workloads on which not every treatment ran are left
    out of all but the rates of divergence, and so are treatments (`cells.complete`). A treatment that is left out is
    compared with the best on the workloads that both have; these intervals are simultaneous over all pairs of all
    treatments. Where workloads have several metrics their differences are put together by metric.

    Attributes:
        results: that it is of.
        ranking: of the treatments, over the workloads on which all of them ran.
        against: every treatment that is ranked against the one that ranks best.
        further: those that the ranking leaves out, likewise.
        rates: as from `divergence.divergence_rates`.
        given: label of the treatment that the others are compared with in place of the one that ranks best, where it
            was named beforehand: intervals are then simultaneous over the comparisons with it.
    """

    results: Results
    ranking: Ranking
    against: Against
    further: Against
    rates: pd.DataFrame
    given: str = ""
    name: ClassVar[str] = "comparison"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"Which {self.results.terms.treatment} is better?"

    @property
    def ranked(self) -> list[str]:
        """The labels of the treatments that are ranked, the best first."""
        return [str(name) for name in self.ranking.ranks.mean_ranks.index]

    @property
    def reference(self) -> str:
        """Label of the treatment that the others are compared with."""
        return self.given or self.ranked[0]

    @property
    def is_over_workloads(self) -> bool:
        """Whether there is something to compare over workloads."""
        return len(self.ranked) > 1 and len(self.ranking.whole.table) >= _SMALLEST

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Who leads where, the order over the workloads, the first two, then each workload, then who is not ranked."""
        results, names = self.results, self.results.names
        found: list[Sentence] = []
        if not self.ranking.ranks.is_told:  # else the order over workloads is what is to be said first
            found += lead_words(find_lead(results, self.ranking.ranks, order_of(results)), results)
        if self.is_over_workloads:
            found.append(ranks_words(self.ranking.ranks, results.terms, names.treatment, place=names.noun))
            others = [name for name in self.ranked if name != self.reference]
            for metric, comparisons in self.against:
                found += [self._pair(name, comparisons[name], metric) for name in others[: None if self.given else 1]]
        found += [sentence for sentences in self._workloads() for sentence in sentences[:1]]
        found += [
            self._pair(name, comparison, metric)
            for metric, comparisons in self.further
            for name, comparison in comparisons.items()
            if comparison.workloads
        ]
        if (tune := results.tune) is not None and tune.protocol and found:
            found += [
                say(f"Compared: {tune.chosen(f'each {results.terms.treatment}', f'all {results.terms.treatment}s')}."),
                *tune.caution(),
            ]
        return found or [bolded("There is nothing to compare.", is_open=True)]

    def _pair(self, name: str, comparison: PairedComparison, metric: Metric) -> Sentence:
        names = self.results.names
        first, second = names.treatment(name), names.treatment(self.reference)
        several = self.results.terms.metric is None
        return pair_over_workloads_words(first, second, comparison, metric, place=names.noun, several=several)

    def _workloads(self) -> list[list[Sentence]]:
        judged = self.results.judged
        several = judged.groupby("workload", sort=False).filter(lambda own: len(own) > 1)
        of = workloads(self.results).of
        return [of(str(name)) for name in dict.fromkeys((several if len(several) else judged)["workload"])]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return comparison_figures(self) if self.is_over_workloads else ([], [])

    @property
    def figures(self) -> list[Figure]:
        """The forest of mean differences, the critical-difference diagram and the performance profile."""
        return self._drawn[0]

    @cached_property
    def remarks(self) -> list[str]:
        """What is not drawn, and what is left out."""
        results, names = self.results, self.results.names
        texts = list(self._drawn[1])
        if left := left_out_words(self.ranking.whole, results.terms, names.treatment, names.workload, place=names.noun):
            texts.append(left)
        judged = set(results.judged["treatment"])
        without = sorted(set(results.trials["treatment"]) - judged, key=natural) if judged else []
        if without:
            listed = ", ".join(names.treatment(name) for name in without)
            texts.append(f"No trial of these has an outcome, so no statistic has them: {listed}.")
        return texts

    @cached_property
    def tables(self) -> list[Table]:
        """Every treatment against the best, over the workloads and on each, and all pairs of mean ranks."""
        tables = []
        if self.is_over_workloads:
            tables.append(differences_table(self))
            if len(self.ranking.ranks.pairs):
                tables.append(pairs_table(self))
        if any(comparisons for _, comparisons in [*self.against, *self.further]):
            tables.append(paired_table(self))
        return tables


def compare(results: Results | str | Path, *, reference: str = "") -> Comparison:
    """Return which treatment is better.

    Args:
        results: as from `read_results`, or a suite's folder.
        reference: the treatment that the others are compared with, by its short or whole name; by default the one that
            ranks best.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such treatment, or none that
            ran wherever the others did.
    """
    results = as_results(results)
    ranking = rank(results)
    trials, judged = results.trials, results.judged
    names = [str(name) for name in ranking.ranks.mean_ranks.index]
    given = label_of(reference, results.names.treatments, results.terms.treatment) if reference else ""
    if given and given not in names:
        raise InitbenchError(
            f"{reference} has no result on some workload, so that nothing is compared with it over all"
        )
    names.sort(key=lambda name: given not in {"", name})
    everywhere = trials[trials["workload"].isin(ranking.whole.table.index)]
    every = [str(name) for name in dict.fromkeys(judged["treatment"])]
    return Comparison(
        results,
        ranking,
        against(everywhere, names, results.metrics, len(names) - 1 if given else pairs_of(len(names))),
        against(
            trials,
            [*names[:1], *ranking.whole.treatments],
            results.metrics,
            len(every) - 1 if given else pairs_of(len(every)),
        ),
        divergence_rates(judged, trial_outcomes(trials)),
        given,
    )


def by_metric(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> list[tuple[Metric, pd.DataFrame]]:
    """Return the trials of each metric, all of them where there is one."""
    if len(metrics) <= 1:
        return [(next(iter(metrics.values()), UNKNOWN), trials)]
    return [(metric, trials[trials["metric"] == name]) for name, metric in metrics.items()]


def pairs_of(treatments: int) -> int:
    """Return how many pairs there are: any might have been looked at where the best is found from the same trials."""
    return treatments * (treatments - 1) // 2


def against(trials: pd.DataFrame, names: Sequence[str], metrics: Mapping[str, Metric], comparisons: int) -> Against:
    """Return for each metric the comparisons of every treatment with the first of the names.

    Args:
        trials: as from `trials.comparable_trials`.
        names: the treatments.
        metrics: by name.
        comparisons: for how many the intervals hold at once.
    """
    return [
        (metric, {name: compare_columns(wide, name, names[0], comparisons=comparisons) for name in names[1:]})
        for metric, own in by_metric(trials, metrics)
        for wide in [by_seed(own, names)]
    ]


_DIFFERENCES = [
    *("treatment", "mean_rank", "difference", "difference_low", "difference_high"),
    *("improvement", "improvement_low", "improvement_high"),
    *("workloads", "rate", "rate_low", "rate_high", "trials", "trials_diverged"),
]


def differences_table(found: Comparison) -> Table:
    """Return the table of every treatment over the workloads."""
    results, ranks = found.results, found.ranking.ranks
    rates = {row["treatment"]: row for row in found.rates.to_dict("records")}
    terms, noun = results.terms, results.names.noun
    reference, metric, one = found.reference, terms.metric, {}
    if metric is not None:
        one = {name: comparison for _, own in [*found.against, *found.further] for name, comparison in own.items()}
    rows = []
    for name in [*ranks.mean_ranks.index, *(name for name in found.further[0][1])]:
        row = {"treatment": name, "mean_rank": ranks.mean_ranks.get(name, np.nan)} | rates[str(name)]
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


def comparison_figures(found: Comparison) -> tuple[list[Figure], list[str]]:
    """Return the forest of mean differences, the critical-difference diagram and the performance profile.

    Args:
        found: of treatments over two workloads or more.

    Returns:
        The figures, and a sentence for each that there is not.
    """
    terms = found.results.terms
    parts: list[Figure | str] = [_ranks(found)]
    if terms.metric is None:
        titles = listed([metric.title for metric, _ in found.against])
        parts.append(
            f"The workloads have several metrics ({titles}), whose values are never put together: there is no forest "
            "of mean differences and no performance profile over all of them."
        )
    else:
        [(metric, comparisons)] = found.against
        parts = [_differences(found, comparisons, metric), *parts, _profile(found, metric)]
    figures = [part for part in parts if isinstance(part, Figure)]
    return figures, [part for part in parts if isinstance(part, str) and part]


def shown(difference: Estimate, metric: Metric) -> Estimate:
    """Return a difference of oriented outcomes in the metric's own direction, its interval within what there can be."""
    return difference.in_direction(metric).clipped(-metric.largest_difference, metric.largest_difference)


def _differences(found: Comparison, comparisons: Mapping[str, PairedComparison], metric: Metric) -> Figure | str:
    names, terms = found.results.names, found.results.terms
    reference = names.treatment(found.reference)
    rows = []
    for label, comparison in comparisons.items():
        estimate, name = shown(comparison.difference, metric), names.treatment(label)
        scaled = estimate._replace(
            value=metric.scale * estimate.value, low=metric.scale * estimate.low, high=metric.scale * estimate.high
        )
        words = pair_over_workloads_words(name, reference, comparison, metric, place=names.noun)
        rows.append(ForestRow(name, scaled, str(words)))
    unit = metric.difference_unit or metric.beside_title.unit
    drawing = forest_panel(rows, f"{metric.title} less that of {reference}" + (f" ({unit})" if unit else ""))
    if drawing is None:
        other = f"with each other {terms.treatment}, a trial diverged somewhere"
        return f"There are no mean differences to {reference}: {other}."
    missing = [row.label for row in rows if np.isnan(row.estimate.value)]
    note = f"Mean over the {names.noun}s of the paired differences, with simultaneous 95 % intervals over these."
    note += f" Not drawn, because a trial diverged: {', '.join(missing)}." if missing else ""
    alt = " ".join(row.words for row in rows)
    return Figure(
        "differences", f"Differences to {reference}" + ("" if found.given else ", which ranks best"), alt, drawing, note
    )


def _ranks(found: Comparison) -> Figure | str:
    ranks, names, terms = found.ranking.ranks, found.results.names, found.results.terms
    if np.isnan(ranks.critical_difference):
        return f"There is no critical-difference diagram: {terms.say(ranks.reason)}." if ranks.reason else ""
    half = ranks.critical_difference / 2
    rows = [
        ForestRow(name, Estimate(mean, mean - half, mean + half, ranks.workloads), f"{name}: mean rank {mean:.2f}")
        for label, mean in ranks.mean_ranks.items()
        for name in [names.treatment(str(label))]
    ]
    drawing = forest_panel(rows, "mean rank (1 is best)", zero=None)
    note = (
        f"Critical difference {ranks.critical_difference:.2f} (Nemenyi, 5 %, {names.workloads_of(ranks.workloads)}): "
        f"two {terms.treatment}s whose bars do not overlap differ by more than that."
    )
    alt = "; ".join(row.words for row in rows) + "."
    return "" if drawing is None else Figure("mean-ranks", "Critical-difference diagram", alt, drawing, note)


def _profile(found: Comparison, metric: Metric) -> Figure | str:
    whole = found.ranking.whole.table
    outcomes = table(found.results.cells).reindex(index=whole.index, columns=whole.columns)
    outcomes = outcomes.rename(columns=found.results.names.treatment)
    from_best = metric.best is not None and metric.best != 0
    costs = outcomes - metric.oriented(metric.best or 0.0)
    if (metric.better == "higher" and metric.best is None) or (costs < 0).to_numpy().any():
        return f"There is no performance profile: the {metric.title} has no best value to measure from."
    profiles = performance_profiles(costs)
    best = "; ".join(f"{name} is the best on {100 * share:.0f} %" for name, share in profiles.iloc[0].items())
    origin = metric.beside_title.text(metric.best or 0.0)
    what = f"distance of the {metric.title} from {origin}" if from_best else metric.title
    least, noun = "least" if from_best else "lowest", found.results.names.noun
    note = f"On what share of the {noun}s the median {what} is within a factor of the {least}; diverged is a miss."
    drawing = profile_panel(profiles, f"{what} over the {least} of the {noun}, log scale", found.results.palette)
    return Figure("profile-outcome", f"Performance profile: {metric.title}", f"{note} {best}.", drawing, note)
