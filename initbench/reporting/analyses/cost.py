"""What does initialization cost, and what gets somewhere with the least compute in all?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized, count, duration, listed, steps
from initbench.comparing.labels import label_of
from initbench.errors import ArgumentError
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.analyses.curve_figures import drawn
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.profile import profile_panel
from initbench.reporting.charts.spending import Spending, spending_panel
from initbench.reporting.columns import Column
from initbench.reporting.comparison_sentences import left_out_remark
from initbench.reporting.file_names import file_names
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.words.cost import fastest_words, spent_words
from initbench.statistics.cells import Complete, complete
from initbench.statistics.cost import costs_to_target, initialization_steps, on_one_device, spent
from initbench.statistics.profiles import fastest, performance_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence


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
        is_given: whether one target was given for all of them.
    """

    results: Results
    spent: pd.DataFrame
    to_target: pd.DataFrame
    targets: pd.Series[float]
    is_given: bool = False
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
            sentences.append(fastest_words(fastest(self.whole.table), terms, names.treatment, place=names.noun))
        return sentences

    @cached_property
    def _drawn(self) -> tuple[list[Figure], list[str]]:
        return spending_figures(self)

    @cached_property
    def figures(self) -> list[Figure]:
        """What is spent until the target on each workload, and the performance profile over all."""
        return [*self._drawn[0], *([profile_figure(self, self._target)] if self.is_over_workloads else [])]

    @property
    def _target(self) -> str:
        """What the targets are, as a sentence."""
        if self.is_given:
            [metric] = self.results.metrics.values()
            return f"The target is a {metric.title} of {metric.beside_title.text(self.targets.iloc[0])}."
        return _TARGET.format(noun=self.results.names.noun, treatment=self.results.terms.treatment)

    @cached_property
    def remarks(self) -> list[str]:
        """What is left out, and workloads without a target."""
        names, texts = self.results.names, [*self._drawn[1]]
        without = [names.workload(str(label)) for label, target in self.targets.items() if math.isnan(target)]
        if without:
            texts.append(f"There is no target where nothing trains: {', '.join(without)}.")
        if self.is_over_workloads:
            unknown = self.spent["initialization_steps"].isna().any()
            reason = "ran with a cost that the records tell" if unknown else "ran"
            left = left_out_remark(self.whole, self.results, reason)
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
            f"{self._target} Passes are counted as gradients: F forward passes "
            "with B calls of autograd are F · 3^(B/F) / 3 gradients, for a derivative of a derivative goes back "
            "through all that was computed so far."
        )
        title = f"What each {terms.treatment} costs, and when it reaches the target"
        metrics = {metric.name: metric for metric in self.results.metric_of.values()}
        return [Table("costs", title, frame, columns, note, metrics, self.results.names)]


_TARGET = (
    "The target of a {noun} is the final outcome of its middle {treatment}, of two middle ones the better; where that "
    "does not train, of the last that does."
)


def cost(results: Results | str | Path, *, target: float | None = None, workload: str = "") -> Cost | None:
    """Return what initialization costs; None where no trial has a result.

    Args:
        results: as from `read_results`, or a suite's folder.
        target: an outcome, for all workloads: shares as fractions; by default each workload has one of its own
            (`statistics.cost.costs_to_target`).
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read; there is no such workload; or no outcome can
            be compared with the target.
    """
    results = as_results(results)
    costs = initialization_costs(results)
    if workload:
        label = label_of(workload, results.names.workloads, "workload")
        costs = costs[costs["workload"] == label].reset_index(drop=True)
    if not len(costs):
        return None
    if target is not None:
        _check_target(target, results)
    to_target, targets = costs_to_target(results.trials, results.by_id, results.metric_of, target)
    own = [str(label) for label in targets.index if label in set(costs["workload"])]
    to_target, targets = to_target.reindex(index=own), targets[own]
    return Cost(results, costs, to_target, targets, is_given=target is not None)


def _check_target(target: float, results: Results) -> None:
    if len(results.metrics) != 1:
        titles = listed([metric.title for metric in results.metrics.values()])
        raise ArgumentError(f"is of one metric, and these results have {titles or 'none'}", "target")
    [metric] = results.metrics.values()
    if not math.isfinite(target):
        raise ArgumentError(f"must be finite, got {target}", "target")
    if metric.unit == "%" and not 0 <= target <= 1:
        raise ArgumentError(f"must be a fraction from 0 to 1, got {target:g}", "target")


def initialization_costs(results: Results) -> pd.DataFrame:
    """Return for each workload and treatment the median over seeds of what its initializer spent before training.

    Returns:
        ``workload, treatment, initialization_steps`` (in training steps of the same cost, NaN where it is not known),
        ``training_steps`` (median; NaN where none finished), ``initialization_seconds`` (NaN where the workload ran on
        several kinds of device, whose seconds are not compared).
    """
    return results.once(_initialization_costs)


def _initialization_costs(results: Results) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    ran = results.trials[results.trials["status"] != "failed"]
    comparable = {
        str(name): on_one_device(results.by_id[i] for i in own["trial_id"]) for name, own in ran.groupby("workload")
    }
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
                "initialization_seconds": float(np.median(seconds)) if comparable[str(workload)] else math.nan,
            }
        )
    return pd.DataFrame(rows, columns=_COLUMNS)


def cost_texts(results: Results) -> dict[str, str]:
    """Return for each treatment what its initialization costs in short: ``450 steps · 24 s``, or ``none``.

    Where workloads differ it is the most. Where trials ran on several kinds of device no seconds are said.
    """
    texts = {}
    comparable = on_one_device(results.by_id.values())
    for treatment, own in initialization_costs(results).groupby("treatment", sort=False):
        steps, seconds = own["initialization_steps"].max(), own["initialization_seconds"].max()
        if own["initialization_steps"].isna().any():
            continue
        taken = duration(seconds) if seconds < 10 or seconds >= 100 else f"{seconds:.0f}\N{NO-BREAK SPACE}s"
        timed = f" · {taken}" if comparable and math.isfinite(seconds) else ""
        texts[str(treatment)] = (
            f"{count(math.ceil(steps))} step{'s' if steps > 1 else ''}{timed}" if steps > 0 else "none"
        )
    return texts


_AXIS = "compute (training steps)"


def spending_figures(found: Cost) -> tuple[list[Figure], list[str]]:
    """Return what every treatment spends until the target, on each workload that has something to draw.

    Args:
        found: of any workloads.

    Returns:
        The figures, and a sentence on those that there are not.
    """
    results, frame = found.results, found.tables[0].frame
    labels, left = drawn(frame, "workload", "costs.csv")
    names, figures = file_names(labels, "spent-"), []
    for label in labels:
        metric, target = results.metric_of[label], found.targets.get(label, math.nan)
        own = frame[frame["workload"] == label].assign(total=lambda rows: rows["steps_to_target"].fillna(math.nan))
        # The least in all first; what misses the target last, the one that spent least before training first.
        rows = [
            Spending(
                name := results.names.treatment(row["treatment"]),
                row["initialization_steps"],
                row["total"],
                _words(name, row["initialization_steps"], row["total"]),
            )
            for row in own.sort_values(["total", "initialization_steps"], kind="stable").to_dict("records")
        ]
        panel = spending_panel(rows, _AXIS)
        if panel is None:
            continue
        where = results.names.workload(label)
        title = f"Compute to a {metric.title} of {metric.beside_title.text(target)}: {where}"
        alt = f"{title}. {'; '.join(row.words for row in rows)}."
        figures.append(Figure(names[label], title, alt, panel, subject=where))
    return figures, left


def profile_figure(found: Cost, note: str) -> Figure:
    """Return the performance profile of the compute to the target.

    Args:
        found: of two workloads or more.
        note: what the targets are.
    """
    results = found.results
    noun = results.names.noun
    note = (
        f"On what share of the {noun}s {results.terms.one} reaches the target within a factor of the least "
        f"compute, its own passes included. {note}"
    )
    profiles = performance_profiles(found.whole.table.rename(columns=results.names.treatment))
    drawing = profile_panel(profiles, f"compute over the least of the {noun}, log scale", results.palette)
    alt = f"{note} {found.sentences[-1]}"
    return Figure("profile-cost", "Performance profile: compute to a target", alt, drawing, note)


def _words(name: str, before: float, total: float) -> str:
    """Return ``metainit: 550 steps, 450 of them before training``."""
    if math.isnan(before) or math.isnan(total):
        return f"{name}: not known"
    if math.isinf(total):
        return f"{name}: target not met" + (f", {steps(before)} steps before training" if before > 0 else "")
    return f"{name}: {steps(total)} steps" + (f", {steps(before)} of them before training" if before > 0 else "")
