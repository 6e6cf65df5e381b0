"""The figures of tuning: the objective by step and by depth, scale factors and gradients by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from initbench.reporting.analyses.curve_figures import drawn, in_words
from initbench.reporting.analyses.layer_figures import AXIS, weights
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.layers import layer_panel
from initbench.reporting.charts.tuning import tuning_panel
from initbench.reporting.charts.values import value_panel
from initbench.reporting.depth import without_depth
from initbench.reporting.file_names import file_names
from initbench.reporting.formatting import capitalized
from initbench.reporting.names import short_names
from initbench.reporting.words.initialization import plain_number, quantity_words

if TYPE_CHECKING:
    from collections.abc import Callable

    from initbench.reporting.analyses.tuning import Tuning
    from initbench.reporting.charts.panel import Specification

    Draw = Callable[[pd.DataFrame, dict[str, str]], Specification | None]

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
    title, axis = what.removesuffix(_BOTH), AXIS
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
    trials, history = found.results.trials, found.changes[found.changes["source"] == "history"]
    if "architecture.depth" not in trials or not len(history):
        return []
    depth = trials.drop_duplicates("workload").set_index("workload")["architecture.depth"]
    own = history.assign(
        depth=history["workload"].map(depth), family=[without_depth(label) for label in history["workload"]]
    ).dropna(subset=["depth"])
    several = own.groupby(["family", "quantity"], sort=False).filter(lambda part: len(set(part["depth"])) > 1)
    ends = {"median": "", "smallest": "_smallest", "largest": "_largest"}
    both = [
        several.assign(kind=when, **{f"value_{end}": several[f"{when}{suffix}"] for end, suffix in ends.items()})
        for when in ("before", "after")
    ]
    shown, colours = in_words(pd.concat(both), found.results)
    families = short_names([], list(dict.fromkeys(several["family"])))
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
