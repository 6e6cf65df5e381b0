"""What did the network look like at initialization? Measurements by layer and along curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.labels import Name, label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.layer_distances import distance_table
from initbench.reporting.analyses.layer_figures import layer_figures
from initbench.reporting.columns import Column
from initbench.reporting.measurements import left_of_statistics, level, measurement_tables
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.initialization import levels, nothing_finite, one_level, widest_span

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.charts.figure import Figure
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_MOST_SENTENCES = 6
_TITLES = {"probe_layers": "Every value by layer", "probe_curves": "Every point of the curves"}


@dataclass(frozen=True)
class Layers(Analysis):
    """What probes measured by layer and along curves, before training.

    Attributes:
        results: that it is of.
        profiles: as from `measurements.profiles`.
        levels: one row for each probe, workload and treatment: ``typical``, ``smallest`` and ``largest`` size of the
            layers' medians over seeds, their number ``layers`` and ``factor``, the largest over the smallest
            (`measurements.level`, which says which layers count).
    """

    results: Results
    profiles: pd.DataFrame
    levels: pd.DataFrame
    name: ClassVar[str] = "layers"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "What did the network look like at initialization?"

    @cached_property
    def sentences(self) -> list[Sentence]:
        """For each probe where treatments lie farthest apart, and where layers do."""
        found: list[Sentence] = []
        for probe, own in self.levels.groupby("probe", sort=False):
            known = own[own["layers"] > 0]
            found += self._of(str(probe), known) if len(known) else [nothing_finite(str(probe))]
        return found[:_MOST_SENTENCES]

    def _of(self, probe: str, known: pd.DataFrame) -> list[Sentence]:
        names, form = self.results.names, str(known["form"].iloc[0])
        label, apart = self.farthest(probe)
        own = known[known["workload"] == label]
        ends = [own.iloc[int(index)] for index in (own["typical"].argmin(), own["typical"].argmax())]
        if apart > 1:
            low, high = ((names.treatment(end["treatment"]), end["typical"]) for end in ends)
            found = [levels(probe, form, names.workload(label), low, high)]
        else:
            row = ends[0]
            where = names.workload(label), names.treatment(row["treatment"])
            found = [one_level(probe, form, *where, (row["smallest"], row["largest"]))]
        wide = known[known["factor"].notna()] if form == "per_layer" else known[:0]
        if len(wide) and wide["factor"].max() > 1:
            row = wide.iloc[int(wide["factor"].argmax())]
            where = names.workload(row["workload"]), names.treatment(row["treatment"])
            found.append(widest_span(probe, *where, row["factor"]))
        return found

    def farthest(self, probe: str) -> tuple[str, float]:
        """Return the workload on which the typical values of two treatments lie farthest apart, and by which factor.

        The factor is +∞ where one of them is 0, and 1 where there is one treatment, or all are alike.

        Args:
            probe: its name, one that has a finite value.
        """
        known = self.levels[(self.levels["probe"] == probe) & (self.levels["layers"] > 0)]
        typical = known.groupby("workload", sort=False)["typical"].agg(["min", "max"])
        factors = [
            1.0 if high == low else high / low if low > 0 else math.inf
            for low, high in zip(typical["min"], typical["max"], strict=True)
        ]
        first = max(range(len(factors)), key=factors.__getitem__)
        return str(typical.index[first]), factors[first]

    @cached_property
    def tables(self) -> list[Table]:
        """The levels, and every value by layer and point of a curve."""
        results = self.results
        columns = [
            Column("Probe", "text", "probe"),
            Column("Workload", "workload", "workload"),
            Column(capitalized(results.terms.treatment), "treatment", "treatment"),
            Column("Layers\nor points", "count", "layers"),
            Column("Typical", "quotient", "typical"),
            Column("smallest", "quotient", "smallest"),
            Column("largest", "quotient", "largest"),
            Column("Largest over\nsmallest", "quotient", "factor"),
        ]
        note = (
            "Sizes of medians over seeds, of the weights where the layers’ names tell them. Typical: the median of the "
            "layers; of a curve, its last value."
        )
        every = measurement_tables(results.records, results.trials)
        return [
            Table("layers", "By treatment", self.levels, columns, note, names=results.names),
            *(Table(name, _TITLES[name], frame, is_shown=False) for name, frame in every.items()),
        ]

    def distances(self, reference: str) -> Table:
        """Return how far treatments are from a reference, layer by layer (`layer_distances.distances`).

        Args:
            reference: the treatment, by its short or whole name.

        Raises:
            InitbenchError: there is no such treatment.
        """
        every = measurement_tables(self.results.records, self.results.trials).get("probe_layers", self.profiles[:0])
        is_own = every["probe"].isin(self.profiles["probe"]) & every["workload"].isin(self.profiles["workload"])
        return distance_table(self.results, every[is_own], reference)

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return layer_figures(self.profiles, self.results)

    @property
    def figures(self) -> list[Figure]:
        """Every probe by layer or along its curve, on each workload."""
        return self._drawn[0]

    @property
    def remarks(self) -> list[str]:
        """That statistics take none of these, and what is not drawn."""
        every = {table.name: table.frame for table in self.tables if table.name in _TITLES}
        return [left_of_statistics(every), *self._drawn[1]]


def layers(results: Results | str | Path, *, probe: str = "", workload: str = "") -> Layers | None:
    """Return what probes measured by layer and along curves, None where none did.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: one alone, such as ``gradient_norm.per_layer``; all by default.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such probe or workload.
    """
    results = as_results(results)
    found = results.profiles
    if not len(found):
        return None
    if probe:
        known = {name: Name(name) for name in dict.fromkeys(found["probe"])}
        found = found[found["probe"] == label_of(probe, known, "probe by layer")]
    if workload:
        found = found[found["workload"] == label_of(workload, results.names.workloads, "workload")]
        if not len(found):
            return None
    rows = [
        {
            **dict(zip(("probe", "form", "workload", "treatment"), cell, strict=True)),
            **(own := level(part))._asdict(),
            "factor": own.factor,
        }
        for cell, part in found.groupby(["probe", "form", "workload", "treatment"], sort=False)
    ]
    return Layers(results, found, pd.DataFrame(rows))
