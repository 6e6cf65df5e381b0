"""Does a measurement at initialization predict the outcome?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.prediction_figures import (
    can_be_drawn,
    outcome_figures,
    probes_figure,
    rho_figures,
)
from initbench.reporting.analyses.prediction_tables import correlation_table, probes_table
from initbench.reporting.analyses.probe_results import ALL_VALUES, ProbeResult, measure
from initbench.reporting.names import Name, label_of
from initbench.reporting.results import as_results
from initbench.reporting.statistics.multiplicity import adjust
from initbench.reporting.words.prediction import (
    agreement_words,
    foretells_words,
    gain_words,
    predicts_words,
    regret_words,
)
from initbench.reporting.words.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.tables import Table


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
            return [Sentence(nothing, is_open=True)]
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
