"""How does a measurement at initialization change as a tuner takes more steps?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.labels import Name, Names, label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.style import colours
from initbench.reporting.charts.values import value_panel
from initbench.reporting.columns import Column
from initbench.reporting.file_names import file_names
from initbench.reporting.quantities import short_quantities
from initbench.reporting.questions.probe_results import probe_columns
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.tuned import base_of
from initbench.reporting.words.initialization import by_steps
from initbench.statistics.cells import spread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

_ARGUMENTS = ("steps", "iterations")  # of tuners
_COLUMNS = ["probe", "workload", "treatment", "steps", "seeds", "value_median", "value_smallest", "value_largest"]


@dataclass(frozen=True)
class TunerSteps(Analysis):
    """Single numbers that probes measured, by the number of a tuner's steps.

    Attributes:
        results: that it is of.
        values: one row for each probe, workload, tuner and number of steps: medians over the seeds with the smallest
            and the largest. ``treatment`` is the tuner's label without its number of steps; 0 steps are the treatment
            that it starts from, where the suite has that.
    """

    results: Results
    values: pd.DataFrame
    name: ClassVar[str] = "tuner_steps"

    @property
    def question(self) -> str:
        """As a page asks it."""
        return "What changes as a tuner takes more steps?"

    @cached_property
    def names(self) -> Names:
        """The names of the tuners without their numbers of steps, and of the workloads."""
        tuners = self.results.labels.names(self.values["treatment"], []).treatments
        return Names(tuners, self.results.names.workloads, self.results.names.noun)

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The measurement with the fewest and the most steps, for each tuner and workload."""
        found = []
        for (probe, workload, treatment), own in self._lines():
            ends = [(row["steps"], row["value_median"]) for row in own.iloc[[0, -1]].to_dict("records")]
            found.append(by_steps(self.names, treatment, probe, workload, ends[0], ends[1]))
        return found

    def _lines(self) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
        for cell, own in self.values.groupby(_COLUMNS[:3], sort=False):
            yield (str(cell[0]), str(cell[1]), str(cell[2])), own.sort_values("steps")

    @cached_property
    def tables(self) -> list[Table]:
        """Every tuner at every number of steps."""
        columns = [
            Column("Probe", "text", "probe"),
            Column("Workload", "workload", "workload"),
            Column("Tuner", "treatment", "treatment"),
            Column("Steps", "count", "steps"),
            Column("Seeds", "count", "seeds"),
            Column("Median", "quotient", "value_median"),
            Column("smallest", "quotient", "value_smallest"),
            Column("largest", "quotient", "value_largest"),
        ]
        return [Table("tuner_steps", "By the tuner’s steps", self.values, columns, names=self.names)]

    @cached_property
    def figures(self) -> list[Figure]:
        """Each probe by the tuner's steps, on each workload."""
        shown = {label: name.text for label, name in self.names.treatments.items()}
        quantities = short_quantities(name.removeprefix("probe.") for name in probe_columns(self.results.trials))
        palette = colours(shown.values())
        found = []
        for probe, of_probe in self.values.groupby("probe", sort=False):
            what = quantities[str(probe)]
            files = file_names(list(dict.fromkeys(map(str, of_probe["workload"]))), f"steps-{probe}-")
            for workload, own in of_probe.groupby("workload", sort=False):
                drawn = own.assign(treatment=[shown[label] for label in own["treatment"]])
                panel = value_panel(drawn, "steps", "steps of the tuner", what, palette)
                if panel is None:
                    continue
                where = self.names.workload(str(workload))
                title = f"{capitalized(what)} by the tuner’s steps: {where}"
                said = [str(one) for one in self.sentences if one.subject == probe]
                alt = " ".join([f"{title}. Medians over the seeds.", *said])
                found.append(Figure(files[str(workload)], title, alt, panel, subject=where))
        return found


def tuner_steps(results: Results | str | Path, *, probe: str = "", workload: str = "") -> TunerSteps | None:
    """Return how measurements change with a tuner's steps, None where no tuner ran with several numbers of them.

    Steps are the argument ``steps`` or ``iterations`` of an initializer.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: one alone, that measured a single number; all such by default.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; or there is no such probe or workload.
    """
    results = as_results(results)
    columns = probe_columns(results.trials)
    if probe:
        known = {column.removeprefix("probe."): Name(column.removeprefix("probe.")) for column in columns}
        columns = [f"probe.{label_of(probe, known, 'probe')}"]
    workloads = list(results.trials_on)
    if workload:
        workloads = [label_of(workload, results.names.workloads, "workload")]
    rows = [row for label in workloads for row in _rows(results, label, columns)]
    return TunerSteps(results, pd.DataFrame(rows, columns=_COLUMNS)) if rows else None


def _rows(results: Results, workload: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of one workload, of tuners that have several numbers of steps there."""
    trials = results.trials_on[workload]
    tuners: dict[str, dict[int, str]] = {}  # tuner → steps → the treatment that took so many
    for row in trials.drop_duplicates("treatment").to_dict("records"):
        label, record = str(row["treatment"]), results.by_id[row["trial_id"]]
        arguments = record.spec["initializer"]["arguments"]
        steps = next((arguments[name] for name in _ARGUMENTS if name in arguments), None)
        key = results.labels.treatments[label]
        if steps is not None and "initializer" in key:
            tuner = results.labels.treatment(key.without(*(f"initializer.{name}" for name in _ARGUMENTS)))
            own = tuners.setdefault(tuner, {})
            own[int(steps)] = label
            if base := base_of((workload, label), record, results):
                own[0] = base
    for column in columns:
        for tuner, own in tuners.items():
            if len(set(own) - {0}) < 2:
                continue
            for steps, label in sorted(own.items()):
                values = trials.loc[trials["treatment"] == label, column].dropna()
                found = spread(values.astype(float))
                if not math.isnan(found.median):
                    ends = {f"value_{end}": value for end, value in found._asdict().items()}
                    same = {"probe": column.removeprefix("probe."), "workload": workload, "treatment": tuner}
                    yield same | {"steps": steps, "seeds": len(values)} | ends
