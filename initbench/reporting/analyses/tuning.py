"""What does tuning change? The tuner's objective by step, its scale factors by layer, and what its base comes to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.tuning_figures import tuning_figures
from initbench.reporting.formatting import capitalized
from initbench.reporting.names import label_of
from initbench.reporting.results import as_results
from initbench.reporting.tables import Column, Table
from initbench.reporting.tuned import base_of, changes_of, outcomes_of, scale_factors, tuned_cells, tuning_steps
from initbench.reporting.words.initialization import gained, scaled, tuned

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.words.sentence import Sentence

_MOST_SENTENCES = 3  # on as many tuners


@dataclass(frozen=True)
class Tuning(Analysis):
    """What tuners did to their weights, and what came of it.

    A value that was not finite reads as +∞.

    Attributes:
        results: that it is of.
        steps: the tuners' history: a row for each quantity at each step of each cell, medians over the seeds whose
            tuning got that far.
        factors: by what each parameter was multiplied: a row for each of each cell, in the model's order.
        changes: one row per cell and quantity: ``before`` and ``after``, medians over seeds, with the smallest and the
            largest. Where ``source`` is ``history`` they are the first and the last entry of the tuner's own history,
            over ``steps`` steps, first and last included; where it is ``base``, they are a probe's values of the
            treatment ``base``, from whose weights the tuner starts, and of the tuner; where it is empty, the tuner
            tells no history and the suite has no base of it. ``smallest_factor`` and ``largest_factor``: of the
            parameters' median scale factors, by size.
        outcomes: the outcome likewise: ``before`` of the base, ``after`` of the tuner.
    """

    results: Results
    steps: pd.DataFrame
    factors: pd.DataFrame
    changes: pd.DataFrame
    outcomes: pd.DataFrame
    name: ClassVar[str] = "tuning"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "What does tuning change?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """What each tuner makes of its objective; then where tuning changes the outcome most."""
        tuners = list(dict.fromkeys(self.changes["treatment"]))
        found = [self._tuned(str(label), self.changes[self.changes["treatment"] == label]) for label in tuners]
        shown = [sentence for sentence in found if sentence is not None][:_MOST_SENTENCES]
        outcomes = self.outcomes.assign(size=self._gains().abs()).dropna(subset=["size"])
        for name, own in outcomes.groupby("metric", sort=False):
            row = own.iloc[int(own["size"].argmax())]
            ends = (row["base"], row["before"]), (row["treatment"], row["after"])
            shown.append(gained(self.results.names, self.results.metrics[str(name)], row["workload"], *ends))
        return shown

    def _gains(self) -> pd.Series[float]:
        """Return by how much the outcome is better after tuning, +∞ where it diverged before, NaN where in both."""
        before, after = (self.outcomes[end].to_numpy(dtype=float) for end in ("before", "after"))
        with np.errstate(invalid="ignore"):
            difference = before - after
        signs = [self.results.metrics[name].oriented(1.0) for name in self.outcomes["metric"]]
        return pd.Series(difference * np.array(signs, dtype=float), index=self.outcomes.index)

    def _tuned(self, label: str, own: pd.DataFrame) -> Sentence | None:
        """Return what a tuner did to the first quantity of its history; by what it scales where it has none."""
        names, history = self.results.names, own[own["source"] == "history"]
        if len(history):
            first = history[history["quantity"] == history["quantity"].iloc[0]]
            lower = first["after"] < first["before"]
            # Where it changes most: by its factor, since objectives have any size.
            among = first[lower] if lower.any() else first
            change = (_logarithm(among["after"]) - _logarithm(among["before"])).abs()
            row = among.iloc[int(change.argmax()) if change.notna().any() else 0]
            ends, steps = (row["before"], row["after"]), int(row["steps"])
            counts = int(lower.sum()), len(first)
            return tuned(names, label, row["quantity"], counts, row["workload"], ends, steps)
        known = own.dropna(subset=["largest_factor"]).drop_duplicates("workload")
        if not len(known):
            return None
        apart = _logarithm(known["largest_factor"]) - _logarithm(known["smallest_factor"])
        row = known.iloc[int(apart.fillna(-math.inf).argmax())]
        return scaled(names, label, row["workload"], row["smallest_factor"], row["largest_factor"])

    @cached_property
    def tables(self) -> list[Table]:
        """What changes, the outcome, and what is drawn."""
        names, word = self.results.names, capitalized(self.results.terms.treatment)
        cell = [Column("Workload", "workload", "workload"), Column(word, "treatment", "treatment")]
        ends = [
            Column(capitalized(end), "quotient", end, f"{end}_smallest", f"{end}_largest")
            for end in ("before", "after")
        ]
        changes = [
            *cell,
            Column("Quantity", "text", "quantity"),
            Column("Base", "treatment", "base"),
            Column("Seeds", "count", "seeds"),
            Column("Steps", "count", "steps"),
            *ends,
            Column("Scale factors,\nsmallest", "quotient", "smallest_factor"),
            Column("largest", "quotient", "largest_factor"),
        ]
        note = "Medians over seeds, with the smallest and the largest. Without a base, both are of the tuner's history."
        found = [Table("tuning", "Before and after tuning", self.changes, changes, note, names=names)]
        if len(self.outcomes):
            outcome = capitalized(self.results.terms.outcome)
            columns = [
                *cell,
                Column("Base", "treatment", "base"),
                Column("Seeds", "count", "seeds"),
                Column(f"{outcome},\nof the base", "outcome", "before", "before_smallest", "before_largest"),
                Column("after tuning", "outcome", "after", "after_smallest", "after_largest"),
            ]
            title, metrics = f"{outcome} from the base and after tuning", self.results.metrics
            found.append(Table("tuning_outcomes", title, self.outcomes, columns, metrics=metrics, names=names))
        points = [("tuning_steps", "Every step of the tuners", self.steps), ("scale_factors", "By layer", self.factors)]
        return found + [Table(name, title, frame, is_shown=False) for name, title, frame in points if len(frame)]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return tuning_figures(self)

    @property
    def figures(self) -> list[Figure]:
        """The objective by step and by depth; scale factors, and gradients before and after, by layer."""
        return self._drawn[0]

    @property
    def remarks(self) -> list[str]:
        """What is not drawn."""
        return self._drawn[1]


def tuning(results: Results | str | Path, *, workload: str = "") -> Tuning | None:
    """Return what tuning changes, None where no initializer tells a history or scaled anything.

    Args:
        results: as from `read_results`, or a suite's folder.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such workload.
    """
    results = as_results(results)
    found = tuned_cells(results)
    if workload:
        whole = label_of(workload, results.names.workloads, "workload")
        found = {cell: own for cell, own in found.items() if cell[0] == whole}
    if not found:
        return None
    factors = scale_factors(found)
    bases = {cell: base for cell, own in found.items() if (base := base_of(cell, own[0], results))}
    changes = changes_of(found, bases, factors, results)
    return Tuning(results, tuning_steps(found), factors, changes, outcomes_of(bases, results))


def _logarithm(values: pd.Series[float]) -> pd.Series[float]:
    """Return the logarithm of positive finite numbers, NaN of others."""
    known = values.where((values > 0) & (values < math.inf))
    return pd.Series(np.log(known.to_numpy(dtype=float)), index=values.index)
