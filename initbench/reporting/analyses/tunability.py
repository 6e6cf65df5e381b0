"""How easily is a good rate found: with how many tries, at what cost, within how wide a range?"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.tunability_figures import tunability_figures
from initbench.reporting.analyses.tunability_tables import edges_of, ranges_table, rates_table, tries_tables
from initbench.reporting.metrics import outcome_metrics
from initbench.reporting.results import as_results
from initbench.reporting.searches import chosen, counts_text, tries
from initbench.reporting.statistics.searched import by_rate, by_tries, good_ranges
from initbench.reporting.trials import workload_metrics
from initbench.reporting.words.rates import differing_words, edge_words, no_edge_words, tries_words, widest_words

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.statistics.rates import GoodRange
    from initbench.reporting.tables import Table
    from initbench.reporting.tune import Tune
    from initbench.reporting.words.sentence import Sentence


@dataclass(frozen=True)
class Tunability(Analysis):
    """What the searches of all cells tell.

    Attributes:
        results: that it is of.
        metrics: of the validation split, by workload.
        tries: as from `searches.tries`.
        rates: outcomes by rate, as from `searched.by_rate`.
        curves: outcomes by the number of tries, as from `searched.by_tries`.
        ranges: of good rates, by workload and treatment.
    """

    results: Results
    metrics: Mapping[str, Metric]
    tries: pd.DataFrame
    rates: pd.DataFrame
    curves: pd.DataFrame
    ranges: Mapping[tuple[str, str], GoodRange]
    name: ClassVar[str] = "tunability"

    @property
    def tune(self) -> Tune:
        """What is tuned."""
        assert self.results.tune is not None
        return self.results.tune

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"How easily is a good {self.tune.noun} found?"

    @cached_property
    def chosen(self) -> dict[tuple[str, str], pd.DataFrame]:
        """What the seeds of each cell chose, by workload and treatment."""
        groups = chosen(self.results).groupby(["workload", "treatment"], sort=False)
        return {(str(workload), str(treatment)): own for (workload, treatment), own in groups}

    @cached_property
    def edges(self) -> dict[tuple[str, str], str]:
        """The cells of which some seed chose the smallest or the largest rate that it tried: which of the two."""
        return edges_of(self.tries, self.chosen) if self.tune.has_rate else {}

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Whose good rates range widest, what one try loses, whose best is at an edge, and whose seeds differ."""
        found = [*self._widest(), *self._tries()]
        if self.tune.has_rate and not self.edges:
            found.append(no_edge_words(len(self.chosen)))
        for workload in self.metrics:
            subject = self.results.names.workload(workload)
            for end in ("smallest", "largest"):
                who = [self._display(t) for (w, t), edge in self.edges.items() if w == workload and end in edge]
                found += [edge_words(who, end, subject=subject)] if who else []
            differ = {
                self._display(treatment): counts_text(own)
                for (place, treatment), own in self.chosen.items()
                if place == workload and len(set(own["point"])) > 1
            }
            found += [differing_words(differ, self.tune.noun, subject=subject)] if differ else []
        return found

    def _display(self, treatment: str) -> str:
        return self.results.names.treatment(treatment)

    def _widest(self) -> list[Sentence]:
        """Return who has the widest range, over the workloads on which every treatment that has any has one."""
        spans: dict[str, dict[str, GoodRange]] = defaultdict(dict)
        for (workload, treatment), span in self.ranges.items():
            spans[treatment][workload] = span
        shared = set.intersection(*(set(own) for own in spans.values())) if spans else set()
        if not shared:
            return []
        means = {
            name: math.exp(np.mean([math.log(own[workload].factor) for workload in shared]))
            for name, own in spans.items()
        }
        order = sorted(means, key=lambda name: -means[name])
        widest, narrowest = order[0], order[-1] if len(order) > 1 else ""
        over = f" over {self.results.names.workloads_of(len(shared))}" if len(self.metrics) > 1 else ""
        is_open = any(spans[widest][workload].is_open for workload in shared)
        other = self._display(narrowest) if narrowest else ""
        return [
            widest_words(
                self._display(widest), means[widest], other, means.get(narrowest, 1.0), over=over, at_least=is_open
            )
        ]

    def _tries(self) -> list[Sentence]:
        """Return what one try loses against all, averaged over the workloads that all have, which share a metric."""
        if not len(self.curves) or len(set(self.curves["metric"])) > 1:
            return []
        metric = next(iter(self.metrics.values()))
        ends = self.curves.groupby(["treatment", "workload"], sort=False)["value_median"].agg(["first", "last"])
        loss = (metric.oriented(1.0) * (ends["first"] - ends["last"])).unstack("workload").dropna(axis="columns")  # noqa: PD010
        if not loss.shape[1]:
            return []
        means = loss.mean(axis="columns").sort_values(kind="stable")
        least, most = str(means.index[0]), str(means.index[-1])
        other = self._display(most) if most != least else ""
        return [
            tries_words(
                self._display(least), float(means.iloc[0]), other, float(means.iloc[-1]), self.tune.tries, metric
            )
        ]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return tunability_figures(self)

    @property
    def figures(self) -> list[Figure]:
        """Of each workload the outcome by rate, by tries and by their compute."""
        return self._drawn[0]

    @cached_property
    def tables(self) -> list[Table]:
        """The ranges and choices of every cell, its outcomes after so many tries, and those at each rate."""
        found = [ranges_table(self)] if self.tune.has_rate else []
        return [*found, *(tries_tables(self) if len(self.curves) else []), rates_table(self)]

    @cached_property
    def remarks(self) -> list[str]:
        """What is not drawn, and which cells have no curve by tries."""
        texts = list(self._drawn[1])
        cells = set(zip(self.tries["workload"], self.tries["treatment"], strict=True))
        without = len(cells - set(zip(self.curves["workload"], self.curves["treatment"], strict=True)))
        if without:
            how = "No cell has a" if without == len(cells) else f"{without} of {len(cells)} cells have no"
            why = "two seeds or more that tried the same points, and a chance level where a trial diverged"
            texts.append(f"{how} curve by the number of tries: that takes {why}.")
        return texts


def tunability(results: Results | str | Path) -> Tunability | None:
    """Return how easily a good rate is found; None where no search trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    if results.tune is None or not len(tries(results)):
        return None
    return results.once(_tunability)


def _tunability(results: Results) -> Tunability:
    # Of treatments and workloads alone that have names in the report: those that some final trial has.
    known = tries(results)
    known = known[known["workload"].isin(results.names.workloads) & known["treatment"].isin(results.names.treatments)]
    metrics = workload_metrics(results.searched[results.searched["metric"].notna()], outcome_metrics(results.records))
    own = {name: metrics[name] for name in results.metric_of if name in set(known["workload"])}
    return Tunability(results, own, known, by_rate(known, own), by_tries(known, own), good_ranges(known))
