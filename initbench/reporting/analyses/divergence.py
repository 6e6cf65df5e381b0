"""Which treatments diverge, and how often?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.results import as_results
from initbench.reporting.tables import Column, Table
from initbench.reporting.words.comparison import divergence_words
from initbench.statistics.cells import trial_outcomes
from initbench.statistics.divergence import DivergenceRate, divergence_rate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from initbench.reporting.results import Results
    from initbench.reporting.words.sentence import Sentence


@dataclass(frozen=True)
class Divergence(Analysis):
    """How often treatments diverge.

    Attributes:
        results: that it is of.
        rates: by treatment, with intervals that are simultaneous over all treatments.
    """

    results: Results
    rates: Mapping[str, DivergenceRate]
    name: ClassVar[str] = "divergence"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"Which {self.results.terms.treatment}s diverge?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """One for each treatment that diverges, the most often first."""
        names = self.results.names
        trials = trial_outcomes(self.results.trials)["trial_id"].nunique()
        return divergence_words(self.rates, trials, names.treatment, place=names.noun)

    @cached_property
    def tables(self) -> list[Table]:
        """The rates of all treatments."""
        rows = [
            {
                "treatment": name,
                "workloads": rate.workloads.n,
                "rate": rate.workloads.value,
                "rate_low": rate.workloads.low,
                "rate_high": rate.workloads.high,
                "trials": rate.trials,
                "trials_diverged": rate.diverged,
            }
            for name, rate in self.rates.items()
        ]
        if not any(row["trials_diverged"] for row in rows):
            return []
        treatment = self.results.terms.treatment
        columns = [
            Column(capitalized(treatment), "treatment", "treatment"),
            Column("Its\nworkloads", "count", "workloads"),
            Column("Diverged on", "percent", "rate", "rate_low", "rate_high"),
            Column("Trials", "count", "trials"),
            Column("Trials that\ndiverged", "count", "trials_diverged"),
        ]
        note = (
            "On what share of its workloads at least one seed diverged, with Wilson's 95 % interval, simultaneous over "
            f"the {treatment}s."
        )
        return [
            Table("divergence", "How often each diverges", pd.DataFrame(rows), columns, note, names=self.results.names)
        ]


def divergence(results: Results | str | Path) -> Divergence:
    """Return which treatments diverge.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    judged, outcomes = results.judged, trial_outcomes(results.trials)
    every = [str(name) for name in dict.fromkeys(judged["treatment"])]
    rates = {name: divergence_rate(judged, name, comparisons=len(every), trials=outcomes) for name in every}
    return Divergence(results, rates)
