"""Which treatment is better, over all workloads and on each?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from initbench.errors import InitbenchError
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.comparison_figures import comparison_figures
from initbench.reporting.analyses.comparison_tables import differences_table, paired_table, pairs_table
from initbench.reporting.analyses.heat_cells import order_of
from initbench.reporting.analyses.lead import find_lead
from initbench.reporting.analyses.ranking import Ranking, rank
from initbench.reporting.analyses.workloads import workloads
from initbench.reporting.cells import trial_outcomes
from initbench.reporting.frame import natural
from initbench.reporting.metrics import UNKNOWN
from initbench.reporting.names import label_of
from initbench.reporting.results import as_results
from initbench.reporting.statistics.divergence import DivergenceRate, divergence_rate
from initbench.reporting.statistics.paired import PairedComparison, by_seed, compare_columns
from initbench.reporting.words.comparison import left_out_words, pair_over_workloads_words, ranks_words
from initbench.reporting.words.lead import lead_words
from initbench.reporting.words.protocols import compared_words, once_words
from initbench.reporting.words.sentence import Sentence

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.tables import Table

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
        rates: on how many of its workloads each treatment diverges, simultaneous over the treatments.
        given: label of the treatment that the others are compared with in place of the one that ranks best, where it
            was named beforehand: intervals are then simultaneous over the comparisons with it.
    """

    results: Results
    ranking: Ranking
    against: Against
    further: Against
    rates: Mapping[str, DivergenceRate]
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
            found += [compared_words(tune, results.terms), *once_words(tune)]
        return found or [Sentence("There is nothing to compare.", is_open=True)]

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
    outcomes = trial_outcomes(trials)
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
        {name: divergence_rate(judged, name, comparisons=len(every), trials=outcomes) for name in every},
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
