"""How did training go? The outcome by step and by compute, on test and on training data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from initbench.comparing.formatting import capitalized, natural
from initbench.comparing.labels import label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.curve_figures import TRAIN_NOTE, training_figures
from initbench.reporting.columns import Column
from initbench.reporting.curves import training_curves as curve_table
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.curves import best_end, best_ends, fitted_alone, no_end, not_fitted, widest_gap

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_HALF = 0.5
"""Of the way from chance to the best value: a network that is beyond on training data fits them."""


@dataclass(frozen=True)
class TrainingCurves(Analysis):
    """How the outcome and the same quantity on training data went, step by step.

    Attributes:
        results: that it is of.
        curves: as from `curves.training_curves`.
        ends: one row for the last point of each treatment's curve in each workload: ``workload``, ``treatment``,
            ``state`` (as in `cells.cells`), ``step``, ``seeds``, ``diverged``, the outcome's columns, those of the
            training split, ``metric``; and ``gap``, by how much the median is worse on the outcome's split than on the
            training split, missing where either has no number.
    """

    results: Results
    curves: pd.DataFrame
    ends: pd.DataFrame
    name: ClassVar[str] = "training"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "How did training go?"

    @property
    def has_training(self) -> bool:
        """Whether the training split's curve is known anywhere."""
        return bool(self.curves["train_median"].notna().any())

    @property
    def widest_gaps(self) -> pd.DataFrame:
        """For each metric the row of `ends` with the widest gap, of what trained; none where no gap is known."""
        known = self.ends[(self.ends["state"] == "trained") & self.ends["gap"].notna()]
        return known.loc[known.groupby("metric", sort=False)["gap"].idxmax()]

    @property
    def best_unfitted(self) -> pd.DataFrame:
        """For each metric the row of `ends` that is best on training data, of what did not train."""
        known = self.ends[(self.ends["state"] == "untrained") & self.ends["train_median"].notna()]
        oriented = known["train_median"] * [self._metric(name).oriented(1.0) for name in known["metric"]]
        return known.loc[oriented.groupby(known["metric"], sort=False).idxmin()]

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Where test and training differ most, and whether what did not train fits its training data."""
        names, found = self.results.names, []
        for row in self.widest_gaps.to_dict("records"):
            where = names.treatment(row["treatment"]), names.workload(row["workload"])
            ends, several = (row["outcome_median"], row["train_median"]), self.results.terms.metric is None
            found.append(widest_gap(self._metric(row["metric"]), *where, *ends, several=several))
        for row in self.best_unfitted.to_dict("records"):
            metric, train = self._metric(row["metric"]), row["train_median"]
            if self._fits(row["workload"], metric, train):
                where = names.treatment(row["treatment"]), names.workload(row["workload"])
                found.append(fitted_alone(metric, *where, row["outcome_median"], train))
            else:
                found.append(not_fitted(metric, train))
        return found or [self._without_training()]

    def _without_training(self) -> Sentence:
        trained = self.ends[(self.ends["state"] == "trained") & self.ends["outcome_median"].abs().lt(math.inf)]
        if not len(trained):
            return no_end(bool((self.ends["state"] == "diverged").all()))
        first = trained[trained["workload"] == trained["workload"].iloc[0]]
        metric = self._metric(first["metric"].iloc[0])
        oriented, names = first["outcome_median"] * metric.oriented(1.0), self.results.names
        row = first.iloc[int(oriented.argmin())]
        best = [names.treatment(label) for label in first[oriented == oriented.min()]["treatment"]]
        workload, value = names.workload(row["workload"]), row["outcome_median"]
        if len(best) > 1:
            return best_ends(metric, best, workload, value)
        return best_end(metric, best[0], workload, value, int(row["step"]))

    def _fits(self, workload: str, metric: Metric, train: float) -> bool:
        """Return whether a value on training data is more than half of the way from chance to the best value."""
        trials = self.results.trials_on[workload]
        chance, best = (trials[column].dropna() for column in ("oriented_chance", "oriented_best"))
        if not len(chance) or not len(best):
            return False
        return bool(metric.oriented(train) < chance.iloc[0] - _HALF * (chance.iloc[0] - best.iloc[0]))

    def _metric(self, name: str) -> Metric:
        return self.results.metrics[name]

    @cached_property
    def tables(self) -> list[Table]:
        """Every point of every curve, and where they end."""
        results, outcome = self.results, capitalized(self.results.terms.outcome)
        columns = [
            Column("Workload", "workload", "workload"),
            Column(capitalized(results.terms.treatment), "treatment", "treatment"),
            Column("Last step", "count", "step"),
            Column("Seeds", "count", "seeds"),
            Column("Diverged", "count", "diverged"),
            Column(f"{outcome},\nmedian", "outcome", "outcome_median"),
            Column("smallest", "outcome", "outcome_smallest"),
            Column("largest", "outcome", "outcome_largest"),
        ]
        if self.has_training:
            columns.append(Column("On training data,\nmedian", "outcome", "train_median"))
        note = TRAIN_NOTE if self.has_training else ""
        every, metrics, names = "Every point of the training curves", results.metrics, results.names
        return [
            Table("curves", every, self.curves, columns, note, metrics, names, is_shown=False),
            Table("curve_ends", "Where the training curves end", self.ends, columns, note, metrics, names),
        ]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return training_figures(self.curves, self.results)

    @property
    def figures(self) -> list[Figure]:
        """The outcome by step and by compute, for each workload."""
        return self._drawn[0]

    @property
    def remarks(self) -> list[str]:
        """Which workloads are not drawn."""
        return self._drawn[1]


def training_curves(results: Results | str | Path, *, workload: str = "") -> TrainingCurves | None:
    """Return how training went, None where nothing was trained or every trial failed.

    Args:
        results: as from `read_results`, or a suite's folder.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such workload.
    """
    results = as_results(results)
    curves = curve_table(results.trials, results.records, results.metric_of)
    if workload:
        curves = curves[curves["workload"] == label_of(workload, results.names.workloads, "workload")]
    if not len(curves):
        return None
    ends = curves.groupby(["workload", "treatment"], sort=False).tail(1)
    ends = ends.merge(results.cells[["workload", "treatment", "state"]], on=["workload", "treatment"], how="left")
    signs = [results.metrics[name].oriented(1.0) for name in ends["metric"]]
    gap = (ends["outcome_median"] - ends["train_median"]) * signs
    ends = ends.assign(gap=gap.where(gap.abs() < math.inf)).drop(columns="compute")
    order = [*ends.columns[:2], "state", *(name for name in ends.columns[2:] if name != "state")]
    keys = [tuple(map(natural, cell)) for cell in zip(ends["workload"], ends["treatment"], strict=True)]
    places = sorted(range(len(ends)), key=keys.__getitem__)
    return TrainingCurves(results, curves, ends[order].iloc[places].reset_index(drop=True))
