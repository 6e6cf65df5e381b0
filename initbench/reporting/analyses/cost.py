"""What does initialization cost, and what gets somewhere with the least compute in all?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.cells import Complete, complete
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.compute import initialization_steps
from initbench.reporting.formatting import capitalized, count, duration
from initbench.reporting.results import as_results
from initbench.reporting.statistics.cost import costs_to_target, spent
from initbench.reporting.statistics.profiles import fastest, performance_profiles
from initbench.reporting.tables import Column, Table
from initbench.reporting.words.comparison import left_out_words
from initbench.reporting.words.cost import fastest_words, spent_words

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.results import Results
    from initbench.reporting.words.sentence import Sentence

_SMALLEST = 2
_COLUMNS = ["workload", "treatment", "initialization_steps", "training_steps", "initialization_seconds"]


@dataclass(frozen=True)
class Cost(Analysis):
    """What initialization costs, and who reaches each workload's target with the least compute.

    Attributes:
        results: that it is of.
        spent: as from `initialization_costs`.
        to_target: the cost of each cell to the target of its workload, workloads × treatments, +∞ for a miss.
        targets: of the workloads, NaN where there is none.
    """

    results: Results
    spent: pd.DataFrame
    to_target: pd.DataFrame
    targets: pd.Series[float]
    name: ClassVar[str] = "cost"

    @property
    def question(self) -> str:
        """As the page asks it."""
        return "What does initialization cost?"

    @cached_property
    def whole(self) -> Complete:
        """The costs to the target without gaps."""
        return complete(self.to_target)

    @property
    def is_over_workloads(self) -> bool:
        """Whether there are costs to compare over workloads."""
        return min(self.whole.table.shape) >= _SMALLEST

    @cached_property
    def sentences(self) -> list[Sentence]:
        """What is spent before training, and who reaches the targets with the least compute."""
        names, terms = self.results.names, self.results.terms
        sentences = [spent_words(spent(self.spent), terms, names.treatment)]
        if self.is_over_workloads:
            sentences.append(fastest_words(fastest(self.whole.table), terms, names.treatment))
        return sentences

    @cached_property
    def figures(self) -> list[Figure]:
        """The performance profile of the compute to the target."""
        if not self.is_over_workloads:
            return []
        results = self.results
        noun = results.names.noun
        note = (
            f"On what share of the {noun}s {results.terms.one} reaches the target within a factor of the least compute, "
            f"its own passes included. {_TARGET.format(noun=noun, treatment=results.terms.treatment)}"
        )
        profiles = performance_profiles(self.whole.table.rename(columns=results.names.treatment))
        drawing = profile_panel(profiles, f"compute over the least of the {noun}, log scale", results.palette)
        alt = f"{note} {self.sentences[-1]}"
        return [Figure("profile-cost", "Performance profile: compute to a target", alt, drawing, note)]

    @cached_property
    def remarks(self) -> list[str]:
        """What is left out, and workloads without a target."""
        names, terms = self.results.names, self.results.terms
        texts = []
        without = [names.workload(str(label)) for label, target in self.targets.items() if math.isnan(target)]
        if without:
            texts.append(f"There is no target where nothing trains: {', '.join(without)}.")
        if self.is_over_workloads:
            unknown = self.spent["initialization_steps"].isna().any()
            reason = "ran with a cost that the records tell" if unknown else "ran"
            left = left_out_words(
                self.whole, terms, names.treatment, names.workload, place=names.noun, reason=f"{reason} everywhere"
            )
            texts += [left] if left else []
        return texts

    @cached_property
    def tables(self) -> list[Table]:
        """What each treatment costs, and when it reaches the target."""
        terms, noun = self.results.terms, self.results.names.noun
        to_target = self.to_target.rename_axis("workload").reset_index()
        to_target = to_target.melt("workload", var_name="treatment", value_name="steps_to_target")
        frame = self.spent.merge(to_target, how="left").assign(target=self.spent["workload"].map(self.targets))
        frame["metric"] = [self.results.metric_of[workload].name for workload in frame["workload"]]
        columns = [
            Column(capitalized(noun), "workload", "workload"),
            Column(capitalized(terms.treatment), "treatment", "treatment"),
            Column("Initialization\n(training steps)", "count", "initialization_steps"),
            Column("Training\nsteps", "count", "training_steps"),
            Column(f"Target\n{terms.outcome}", "outcome", "target"),
            Column("Steps to the target,\ninitialization included", "steps", "steps_to_target"),
            Column("Initialization\ntime", "duration", "initialization_seconds"),
        ]
        note = (
            "Medians over the seeds; a target that half of the seeds miss is not reached. "
            f"{_TARGET.format(noun=noun, treatment=terms.treatment)} Passes are counted as gradients: F forward passes "
            "with B calls of autograd are F · 3^(B/F) / 3 gradients, for a derivative of a derivative goes back through "
            "all that was computed so far."
        )
        title = f"What each {terms.treatment} costs, and when it reaches the target"
        metrics = {metric.name: metric for metric in self.results.metric_of.values()}
        return [Table("costs", title, frame, columns, note, metrics, self.results.names)]


_TARGET = (
    "The target of a {noun} is the final outcome of the middle one of the {treatment}s that train there, of two middle "
    "ones the better."
)


def cost(results: Results | str | Path) -> Cost | None:
    """Return what initialization costs; None where no trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.

    Raises:
        InitbenchError: the folder has no trial records that can be read.
    """
    results = as_results(results)
    costs = initialization_costs(results)
    if not len(costs):
        return None
    to_target, targets = costs_to_target(results.trials, results.by_id, results.metric_of)
    return Cost(results, costs, to_target, targets)


def initialization_costs(results: Results) -> pd.DataFrame:
    """Return for each workload and treatment the median over seeds of what its initializer spent before training.

    Returns:
        ``workload, treatment, initialization_steps`` (in training steps of the same cost, NaN where it is not known),
        ``training_steps`` (median; NaN where none finished), ``initialization_seconds``.
    """
    return results.once(_initialization_costs)


def _initialization_costs(results: Results) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    ran = results.trials[results.trials["status"] != "failed"]
    for (workload, treatment), cell in ran.groupby(["workload", "treatment"], sort=False):
        members = [results.by_id[i] for i in cell["trial_id"]]
        steps = [record.metrics.get("steps") for record in members if record.status == "finished"]
        seconds = [record.timing.get("initialization_seconds", math.nan) for record in members]
        rows.append(
            {
                "workload": workload,
                "treatment": treatment,
                "initialization_steps": float(np.median([initialization_steps(record) for record in members])),
                "training_steps": float(np.median([s for s in steps if s is not None] or [math.nan])),
                "initialization_seconds": float(np.median(seconds)),
            }
        )
    return pd.DataFrame(rows, columns=_COLUMNS)


def cost_texts(results: Results) -> dict[str, str]:
    """Return for each treatment what its initialization costs in short: ``450 steps · 24 s``, or ``none``.

    Where workloads differ it is the most.
    """
    texts = {}
    for treatment, own in initialization_costs(results).groupby("treatment", sort=False):
        steps, seconds = own["initialization_steps"].max(), own["initialization_seconds"].max()
        if own["initialization_steps"].isna().any():
            continue
        taken = duration(seconds) if seconds < 10 or seconds >= 100 else f"{seconds:.0f}\N{NO-BREAK SPACE}s"
        texts[str(treatment)] = f"{count(math.ceil(steps))} steps · {taken}" if steps > 0 else "none"
    return texts
