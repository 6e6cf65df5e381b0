"""How does depth change the outcome?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.labels import label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.curve_figures import depth_figures
from initbench.reporting.columns import Column
from initbench.reporting.depth import DEPTH, depth_curves
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.curves import no_worse, reach, steepest

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_MOST_SENTENCES = 3  # on as many families


@dataclass(frozen=True)
class Depth(Analysis):
    """The outcome of every treatment as an architecture gets deeper.

    Attributes:
        results: that it is of.
        depths: as from `depth.depth_curves`.
        reached: one row for each family and treatment: ``deepest_trained``, the largest depth such that its median is
            better than chance there and at all depths that are less (missing where it is not at the least one);
            ``first_failure``, the next depth, missing where there is none; and its steepest step from one depth to the
            next, ``from_depth``, ``from_outcome``, ``to_depth``, ``to_outcome`` with ``worsening``, the difference of
            the oriented medians, +∞ where the second diverged. Steps from a median that diverged are none, nor are
            those to where it does not train, where there are others.
    """

    results: Results
    depths: pd.DataFrame
    reached: pd.DataFrame
    name: ClassVar[str] = "depth"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return f"How does depth change the {self.results.terms.outcome}?"

    @cached_property
    def families(self) -> dict[str, str]:
        """The names of the families, short as sentences have them."""
        labels = list(dict.fromkeys(map(str, self.depths["family"])))
        names = self.results.labels.names([], labels)
        return {label: names.workload(label) for label in labels}

    @cached_property
    def sentences(self) -> list[Sentence]:
        """To which depth what trains, on each family where that differs; then where the outcome worsens most."""
        found = [self._reach(family, own) for family, own in self.reached.groupby("family", sort=False)]
        shown = [sentence for sentence in found if sentence is not None][:_MOST_SENTENCES]
        known = self.reached[self.reached["worsening"] > 0]
        several = known.groupby("metric", sort=False)["worsening"].idxmax()
        for row in known.loc[several].to_dict("records"):
            ends = [(int(row[f"{end}_depth"]), row[f"{end}_outcome"]) for end in ("from", "to")]
            where = self.results.names.treatment(row["treatment"]), self.families[row["family"]]
            shown.append(steepest(self.results.metrics[row["metric"]], *where, ends[0], ends[1]))
        return shown or [no_worse(self.results.terms.outcome)]

    def _reach(self, family: Any, own: pd.DataFrame) -> Sentence | None:
        """Return to which depth what trains; nothing where everything trains everywhere."""
        failing = own[own["first_failure"].notna()]
        if not len(failing):
            return None
        names = self.results.names
        least = failing.sort_values("deepest_trained", na_position="first", kind="stable").iloc[0]
        everywhere = [names.treatment(label) for label in own.loc[own["first_failure"].isna(), "treatment"]]
        reached = own["deepest_trained"].max()
        return reach(
            self.families[str(family)],
            everywhere,
            0 if math.isnan(reached) else int(reached),
            names.treatment(least["treatment"]),
            least["deepest_trained"],
        )

    @cached_property
    def tables(self) -> list[Table]:
        """Every treatment at every depth."""
        outcome = capitalized(self.results.terms.outcome)
        columns = [
            Column("Networks", "workload", "family"),
            Column(capitalized(self.results.terms.treatment), "treatment", "treatment"),
            Column("Depth", "count", "depth"),
            Column("Seeds", "count", "seeds"),
            Column("Diverged", "count", "diverged"),
            Column(f"{outcome},\nmedian", "outcome", "outcome_median"),
            Column("smallest", "outcome", "outcome_smallest"),
            Column("largest", "outcome", "outcome_largest"),
        ]
        metrics = self.results.metrics
        names = replace(self.results.names, workloads=self.results.labels.names([], self.families).workloads)
        return [Table("depths", f"{outcome} by depth", self.depths, columns, metrics=metrics, names=names)]

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return depth_figures(self.depths, self.families, self.results)

    @property
    def figures(self) -> list[Figure]:
        """The outcome by depth, for each family."""
        return self._drawn[0]

    @property
    def remarks(self) -> list[str]:
        """Which families are not drawn."""
        return self._drawn[1]


def depth_profile(results: Results | str | Path, *, family: str = "") -> Depth | None:
    """Return how depth changes the outcome, None where no two workloads differ in depth alone.

    Args:
        results: as from `read_results`, or a suite's folder.
        family: one alone, such as ``plain``, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such family.
    """
    results = as_results(results)
    depths = depth_curves(results.trials, results.metric_of, results.labels)
    if not len(depths):
        return None
    if family:
        known = results.labels.names([], depths["family"]).workloads
        depths = depths[depths["family"] == label_of(family, known, "family of networks")]
    return Depth(results, depths, _reached(depths, results))


def _reached(depths: pd.DataFrame, results: Results) -> pd.DataFrame:
    depth_of = results.trials.drop_duplicates("workload").set_index("workload")[DEPTH]
    states = {
        (results.labels.family(row["workload"], DEPTH), row["treatment"], depth_of[row["workload"]]): row["state"]
        for row in results.cells.to_dict("records")
    }
    rows = []
    for (family, treatment), own in depths.groupby(["family", "treatment"], sort=False):
        points = own.sort_values("depth").to_dict("records")
        trains = [states.get((str(family), treatment, point["depth"])) == "trained" for point in points]
        first = trains.index(False) if False in trains else len(trains)
        row = {"family": family, "treatment": treatment, "metric": points[0]["metric"]}
        row["deepest_trained"] = float(points[first - 1]["depth"]) if first else math.nan
        row["first_failure"] = float(points[first]["depth"]) if first < len(points) else math.nan
        rows.append(row | _steepest(points[:first] if first > 1 else points, results))
    return pd.DataFrame(rows)


def _steepest(points: list[dict[Any, Any]], results: Results) -> dict[str, float]:
    """Return the step from one depth to the next at which the median gets worse the most."""
    metric = results.metrics[points[0]["metric"]]
    oriented = [metric.oriented(point["outcome_median"]) for point in points]
    steps = [
        (after - before, points[i], points[i + 1])
        for i, (before, after) in enumerate(pairwise(oriented))
        if math.isfinite(before)
    ]
    if not steps:
        return dict.fromkeys(("from_depth", "from_outcome", "to_depth", "to_outcome", "worsening"), math.nan)
    worsening, before, after = max(steps, key=lambda step: step[0])
    ends = {f"{end}_{key}": float(point[column]) for end, point in (("from", before), ("to", after))
            for key, column in (("depth", "depth"), ("outcome", "outcome_median"))}  # fmt: skip
    return ends | {"worsening": worsening}
