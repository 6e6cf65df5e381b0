"""What does tuning change? The tuner's objective by step, its scale factors by layer, and what its base comes to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.labels import label_of
from initbench.reporting.analyses.analysis import Analysis
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.layers import layer_panel
from initbench.reporting.charts.tuning import tuning_panel
from initbench.reporting.charts.values import value_panel
from initbench.reporting.columns import Column
from initbench.reporting.file_names import file_names
from initbench.reporting.quantities import plain_number, quantity_words
from initbench.reporting.questions.layers import WEIGHT_AXIS, weights
from initbench.reporting.questions.line_figures import drawn, in_words
from initbench.reporting.results import as_results
from initbench.reporting.tables import Table
from initbench.reporting.tuned import base_of, changes_of, outcomes_of, scale_factors, tuned_cells, tuning_steps
from initbench.reporting.words.initialization import gained, scaled, tuned
from initbench.statistics.depth import DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from initbench.reporting.charts.panel import Specification
    from initbench.reporting.results import Results
    from initbench.reporting.sentence import Sentence

    Draw = Callable[[pd.DataFrame, dict[str, str]], Specification | None]


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


_BOTH = " before and after tuning"
_MOST_NAMED = 12
_FLAGS = {0.0, 1.0}


def tuning_figures(found: Tuning) -> tuple[list[Figure], list[str]]:
    """Return the figures of tuning, and a sentence on those that there are not.

    Args:
        found: what tuning changes.
    """
    figures: list[Figure] = []
    steps, left = drawn(found.steps, "workload", "tuning_steps.csv")
    for quantity, own in _objectives(found.steps).groupby("quantity", sort=False):
        what = quantity_words(str(quantity))
        named = own.assign(quantity=what)
        figures += _each(found, named, steps, f"tuning-{quantity}-", f"{capitalized(what)} while tuning", tuning_panel)
    by_layer = [("factors-", "scale factor", found.factors, "scale_factors.csv")]
    for probe, both in _before_after(found).items():
        title = f"{quantity_words(probe)}{_BOTH}"
        by_layer.append((f"tuned-{probe}-", title, both, "probe_layers.csv"))
    for prefix, title, frame, file in by_layer:
        labels, more = drawn(frame, "workload", file)
        figures += _by_layer(found, frame, labels, prefix, title)
        left += more
    return [*figures, *_depths(found)], list(dict.fromkeys(left))


def _by_layer(found: Tuning, frame: pd.DataFrame, labels: list[str], prefix: str, what: str) -> list[Figure]:
    """Return values by layer for each workload."""
    own = weights(frame, ["workload"])
    title, axis = what.removesuffix(_BOTH), WEIGHT_AXIS
    return _each(
        found,
        own,
        labels,
        prefix,
        f"{capitalized(what)}, by layer",
        lambda part, colours: layer_panel(part, title, colours, axis=axis),
    )


def _before_after(found: Tuning) -> dict[str, pd.DataFrame]:
    """Return the profiles by layer of each probe: ``before`` are those of a tuner's base, ``after`` are its own."""
    measured = found.results.profiles
    measured = measured[measured["form"] == "per_layer"]
    known = pd.concat([frame[["workload", "treatment", "base"]] for frame in (found.changes, found.outcomes)])
    bases = known.dropna().drop_duplicates()
    kinds = []
    for kind, column in (("after", "treatment"), ("before", "base")):
        own = bases.rename(columns={"treatment": "tuner"}).assign(treatment=bases[column], kind=kind)
        both = own.merge(measured, on=["workload", "treatment"])
        kinds.append(both.assign(treatment=both["tuner"]))
    every = pd.concat(kinds)
    return {str(probe): own for probe, own in every.groupby("probe", sort=False) if len(set(own["kind"])) > 1}


def _objectives(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the quantities that are worth a figure: one that is 0 or 1 at each step is none."""
    return steps.groupby("quantity", sort=False).filter(lambda own: not set(own["value_median"]) <= _FLAGS)


def _each(found: Tuning, frame: pd.DataFrame, labels: list[str], prefix: str, title: str, draw: Draw) -> list[Figure]:
    """Return a figure for each workload that has something to draw."""
    shown, colours = in_words(frame, found.results)
    names, figures = file_names(labels, prefix), []
    for label in labels:
        own = shown[shown["workload"] == label]
        panel = draw(own, colours) if len(own) else None
        if panel is not None:
            where = found.results.names.workload(label)
            whole = f"{title}: {where}"
            figures.append(Figure(names[label], whole, f"{whole}. {_words(own)}", panel, subject=where))
    return figures


def _words(own: pd.DataFrame) -> str:
    """Return where every line begins and ends where it goes by step, and the range of its values where by layer."""
    lines = own.groupby(["treatment", *(["kind"] if "kind" in own else [])], sort=False)["value_median"]
    ends = lines.agg(["first", "last"] if "step" in own else ["min", "max"])
    texts = [
        f"{label if isinstance(label, str) else ', '.join(label)} from {plain_number(first)} to {plain_number(last)}"
        for label, first, last in ends.itertuples()
    ]
    which = "first and last" if "step" in own else "smallest and largest"
    return f"Medians over the seeds, {which}: {'; '.join(texts[:_MOST_NAMED])}."


def _depths(found: Tuning) -> list[Figure]:
    """Return the objectives before and after tuning by depth, for the families that differ in nothing else."""
    trials, labels = found.results.trials, found.results.labels
    history = found.changes[found.changes["source"] == "history"]
    if DEPTH not in trials or not len(history):
        return []
    depth = trials.drop_duplicates("workload").set_index("workload")[DEPTH]
    own = history.assign(
        depth=history["workload"].map(depth), family=[labels.family(label, DEPTH) for label in history["workload"]]
    ).dropna(subset=["depth"])
    several = own.groupby(["family", "quantity"], sort=False).filter(lambda part: len(set(part["depth"])) > 1)
    ends = {"median": "", "smallest": "_smallest", "largest": "_largest"}
    both = [
        several.assign(kind=when, **{f"value_{end}": several[f"{when}{suffix}"] for end, suffix in ends.items()})
        for when in ("before", "after")
    ]
    shown, colours = in_words(pd.concat(both), found.results)
    families = labels.names([], several["family"])
    names = {
        quantity: file_names(list(families.workloads), f"tuning-{quantity}-depth-")
        for quantity in set(several["quantity"])
    }
    figures = []
    for (family, quantity), part in shown.sort_values("depth").groupby(["family", "quantity"], sort=False):
        what = quantity_words(str(quantity))
        panel = value_panel(part, "depth", "depth", what, colours)
        if panel is not None:
            title = f"{capitalized(what)} before and after tuning: {families.workload(str(family))}"
            name = names[str(quantity)][str(family)]
            figures.append(Figure(name, title, f"{title}. {_by_depth(part)}", panel))
    return figures


def _by_depth(part: pd.DataFrame) -> str:
    after = part[part["kind"] == "after"]
    texts = [
        f"{label} at depth {depth:g} from {plain_number(before)} to {plain_number(end)}"
        for label, depth, before, end in after[["treatment", "depth", "before", "after"]].itertuples(index=False)
    ]
    return f"Medians over the seeds: {'; '.join(texts[:_MOST_NAMED])}."
