"""What does tuning change? The tuner's objective by step, its scale factors by layer, and the outcome of its base."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.names import label_of, short_names
from initbench.reporting.answer import Answer
from initbench.reporting.charts.chart import Specification
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import layer_panel, value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.quantities import plain_number, quantity_words
from initbench.reporting.questions.layers import WEIGHT_AXIS, weights
from initbench.reporting.questions.line_figures import drawn, in_words
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import Table, table_of
from initbench.reporting.tuned import base_of, changes_of, outcomes_of, scale_factors, tuned_cells, tuning_steps
from initbench.statistics.depth import DEPTH

Draw = Callable[..., Specification | None]
_MOST_SENTENCES = 3  # on as many tuners
_NOTE = "Medians over seeds, with the smallest and the largest. Without a base, both are of the tuner’s history."


class Tuning(NamedTuple):
    """What tuners did to their weights. A value that was not finite reads as +∞.

    Attributes:
        steps: the tuners' history: one row for each quantity at each step of each cell, medians over the seeds whose
            tuning got that far.
        factors: by how much each parameter was multiplied: one row per parameter and cell, in the model's order.
        changes: one row per cell and quantity: ``before`` and ``after``, medians over seeds, with the smallest and the
            largest. If ``source`` is ``history`` they are the first and the last of the ``steps`` entries of the
            tuner's history; if it is ``base`` they are a probe's values of the treatment ``base``, from whose weights
            the tuner starts, and of the tuner; if it is empty, the tuner has no history and the suite does not run its
            base. ``smallest_factor`` and ``largest_factor``, by size, of the parameters' median scale factors.
        outcomes: the outcome likewise, ``before`` of the base and ``after`` of the tuner.
    """

    steps: pd.DataFrame
    factors: pd.DataFrame
    changes: pd.DataFrame
    outcomes: pd.DataFrame


def tuning(results: Results | str | Path, *, workload: str = "") -> Answer | None:
    """Return what tuning changes; None if no initializer has a history or scaled anything.

    Args:
        results: as from `read_results`, or a suite's folder.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such workload.
    """
    results = as_results(results)
    cells = tuned_cells(results)
    if workload:
        label = label_of(workload, results.names.workloads, "workload")
        cells = {cell: records for cell, records in cells.items() if cell[0] == label}
    if not cells:
        return None
    factors = scale_factors(cells)
    bases = {cell: base for cell, records in cells.items() if (base := base_of(cell, records[0], results))}
    changes = changes_of(cells, bases, factors, results)
    facts = Tuning(tuning_steps(cells), factors, changes, outcomes_of(bases, results))
    figures, remarks = tuning_figures(facts, results)
    sentences = [*_tuners(facts, results), *_gains(facts, results)]
    return Answer("tuning", "What does tuning change?", sentences, _tables(facts, results), figures, remarks, facts)


def _tuners(facts: Tuning, results: Results) -> list[Sentence]:
    """Return what the tuners make of their objectives."""
    changes = [cell for _, cell in facts.changes.groupby("treatment", sort=False)]
    sentences = [_objective(cells, results) or _scaled(cells, results) for cells in changes]
    return [sentence for sentence in sentences if sentence is not None][:_MOST_SENTENCES]


def _objective(cells: pd.DataFrame, results: Results) -> Sentence | None:
    """Return how a tuner changes the first quantity of its history, on the workload with the largest change."""
    history = cells[cells["source"] == "history"]
    if not len(history):
        return None
    names, first = results.names, history[history["quantity"] == history["quantity"].iloc[0]]
    lowers = first["after"] < first["before"]
    among = first[lowers] if lowers.any() else first
    # By the factor of the change, because objectives have any size.
    change = (_logarithm(among["after"]) - _logarithm(among["before"])).abs()
    row = among.iloc[int(change.argmax()) if change.notna().any() else 0]
    steps = f"{int(row['steps']):,} step{'s' if row['steps'] != 1 else ''}"
    lowered, count = int(lowers.sum()), len(first)
    verb = "lowers" if lowered else "does not lower"
    if count == 1:
        text = f"On {{where!b}}, {{who!b}} {verb} the {{what}}: from {{before}} to {{after}} in {steps}."
    elif not lowered:
        text = (
            f"{{who!b}} does not lower the {{what}} on any of {names.workloads_of(count)}; on {{where!b}} it goes from "
            f"{{before}} to {{after}} in {steps}."
        )
    else:
        every = f"both {names.noun}s" if count == 2 else f"all {count} {names.noun}s"
        on = every if lowered == count else f"{lowered} of {names.workloads_of(count)}"
        text = f"{{who!b}} lowers the {{what}} on {on}, most on {{where!b}}: from {{before}} to {{after}} in {steps}."
    return say(
        text,
        who=names.treatment(row["treatment"]),
        where=names.workload(row["workload"]),
        what=quantity_words(row["quantity"]),
        before=plain_number(row["before"]),
        after=plain_number(row["after"]),
    )


def _scaled(cells: pd.DataFrame, results: Results) -> Sentence | None:
    """Return by how much a treatment scales its weights, on the workload where the factors differ most."""
    known = cells.dropna(subset=["largest_factor"]).drop_duplicates("workload")
    if not len(known):
        return None
    span = _logarithm(known["largest_factor"]) - _logarithm(known["smallest_factor"])
    row = known.iloc[int(span.fillna(-math.inf).argmax())]
    return say(
        "On {where!b}, {who!b} scales the weights of its base by {smallest} to {largest}.",
        where=results.names.workload(row["workload"]),
        who=results.names.treatment(row["treatment"]),
        smallest=plain_number(row["smallest_factor"]),
        largest=plain_number(row["largest_factor"]),
    )


def _gains(facts: Tuning, results: Results) -> Iterator[Sentence]:
    """Yield for each metric where tuning changes the outcome most."""
    ends = facts.outcomes[["before", "after"]].to_numpy(dtype=float)
    with np.errstate(invalid="ignore"):
        size = np.abs(ends[:, 0] - ends[:, 1])  # +∞ if only one diverged, NaN if both did
    known = facts.outcomes.assign(size=size).dropna(subset=["size"])
    for name, outcomes in known.groupby("metric", sort=False):
        row, metric = outcomes.iloc[int(outcomes["size"].argmax())], results.metrics[str(name)]
        before, after = (
            metric.beside_title.text(row[end]) if math.isfinite(row[end]) else "divergence"
            for end in ("before", "after")
        )
        yield say(
            "On {where!b}, tuning takes the {metric} from {before} ({base!b}) to {after} ({tuner!b}).",
            where=results.names.workload(row["workload"]),
            metric=metric.title,
            base=results.names.treatment(row["base"]),
            tuner=results.names.treatment(row["treatment"]),
            before=before,
            after=after,
        )


def _tables(facts: Tuning, results: Results) -> list[Table]:
    """Return the changes, the outcomes, and what the figures draw."""
    show = "workload treatment quantity base seeds steps before after smallest_factor largest_factor"
    tables = [table_of(results, "tuning", "Before and after tuning", facts.changes, show, _NOTE)]
    if len(facts.outcomes):
        title = f"{capitalized(results.terms.outcome)} from the base and after tuning"
        show = "workload treatment base seeds before after"
        tables.append(table_of(results, "tuning_outcomes", title, facts.outcomes, show))
    points = [("tuning_steps", "Every step of the tuners", facts.steps), ("scale_factors", "By layer", facts.factors)]
    return tables + [table_of(results, name, title, frame) for name, title, frame in points if len(frame)]


def _logarithm(values: pd.Series[float]) -> pd.Series[float]:
    """Return the logarithm of positive finite numbers, NaN of others."""
    known = values.where((values > 0) & (values < math.inf))
    return pd.Series(np.log(known.to_numpy(dtype=float)), index=values.index)


_BOTH = " before and after tuning"
_MOST_NAMED = 12
_FLAGS = {0.0, 1.0}


def tuning_figures(facts: Tuning, results: Results) -> tuple[list[Figure], list[str]]:
    """Return objectives by step and by depth, factors and gradients by layer, and remarks on those left out."""
    figures: list[Figure] = []
    labels, remarks = drawn(facts.steps, "workload", "tuning_steps.csv")
    # A quantity that is 0 or 1 at each step is a flag.
    is_drawn = facts.steps.groupby("quantity", sort=False)["value_median"].transform(lambda x: not set(x) <= _FLAGS)
    for quantity, steps in facts.steps[is_drawn.astype(bool)].groupby("quantity", sort=False):
        what = quantity_words(str(quantity))
        title = f"{capitalized(what)} while tuning"
        panel = partial(value_panel, x="step", across="steps of the tuner", up=what, log_y=True)
        figures += _by_workload(steps, labels, f"tuning-{quantity}-", title, panel, results)
    by_layer = [("factors-", "scale factor", facts.factors, "scale_factors.csv")]
    for probe, both in _before_after(facts, results).items():
        by_layer.append((f"tuned-{probe}-", f"{quantity_words(probe)}{_BOTH}", both, "probe_layers.csv"))
    for prefix, what, values, file in by_layer:
        labels, remark = drawn(values, "workload", file)
        title = f"{capitalized(what)}, by layer"
        marked = (0, 1) if values is facts.factors else ()
        panel = partial(layer_panel, title=what.removesuffix(_BOTH), axis=WEIGHT_AXIS, marked=marked)
        figures += _by_workload(weights(values, ["workload"]), labels, prefix, title, panel, results)
        remarks += remark
    if (facts.factors["value_smallest"] < 0).any():
        remarks.append("A scale factor of 1 leaves a weight as it is; a negative one flips its sign.")
    return [*figures, *_by_depth(facts, results)], list(dict.fromkeys(remarks))


def _before_after(facts: Tuning, results: Results) -> dict[str, pd.DataFrame]:
    """Return the profiles by layer of each probe: ``before`` are those of a tuner's base, ``after`` its own."""
    profiles = results.profiles[results.profiles["form"] == "per_layer"]
    known = pd.concat([frame[["workload", "treatment", "base"]] for frame in (facts.changes, facts.outcomes)])
    bases = known.dropna().drop_duplicates().rename(columns={"treatment": "tuner"})
    kinds = []
    for kind, column in (("after", "tuner"), ("before", "base")):
        both = bases.assign(treatment=bases[column], kind=kind).merge(profiles, on=["workload", "treatment"])
        kinds.append(both.assign(treatment=both["tuner"]))
    every = pd.concat(kinds)
    return {str(probe): both for probe, both in every.groupby("probe", sort=False) if len(set(both["kind"])) > 1}


def _by_workload(
    frame: pd.DataFrame, labels: list[str], prefix: str, title: str, draw: Draw, results: Results
) -> Iterator[Figure]:
    """Yield a figure for each workload that has something to draw."""
    shown, colours = in_words(frame, results)
    files = file_names(labels, prefix)
    for label in labels:
        values = shown[shown["workload"] == label]
        panel = draw(values, colours=colours, beside=shown) if len(values) else None
        if panel is not None:
            where = results.names.workload(label)
            whole = f"{title}: {where}"
            yield Figure(files[label], whole, f"{whole}. {_words(values)}", panel, subject=where)


def _words(values: pd.DataFrame) -> str:
    """Return both ends of every line by step, or the range of the values by layer."""
    lines = values.groupby(["treatment", *(["kind"] if "kind" in values else [])], sort=False)["value_median"]
    ends = lines.agg(["first", "last"] if "step" in values else ["min", "max"])
    texts = [
        f"{label if isinstance(label, str) else ', '.join(label)} from {plain_number(first)} to {plain_number(last)}"
        for label, first, last in ends.itertuples()
    ]
    which = "first and last" if "step" in values else "smallest and largest"
    return f"Medians over the seeds, {which}: {'; '.join(texts[:_MOST_NAMED])}."


def _by_depth(facts: Tuning, results: Results) -> Iterator[Figure]:
    """Yield the objectives before and after tuning by depth, for the workloads that differ in nothing else."""
    trials, labels = results.trials, results.labels
    history = facts.changes[facts.changes["source"] == "history"]
    if DEPTH not in trials or not len(history):
        return
    depths = trials.drop_duplicates("workload").set_index("workload")[DEPTH]
    families = [labels.family(label, DEPTH) for label in history["workload"]]
    known = history.assign(depth=history["workload"].map(depths), family=families).dropna(subset=["depth"])
    several = known.groupby(["family", "quantity"], sort=False).filter(lambda rows: len(set(rows["depth"])) > 1)
    ends = {"median": "", "smallest": "_smallest", "largest": "_largest"}
    both = [
        several.assign(kind=when, **{f"value_{end}": several[f"{when}{suffix}"] for end, suffix in ends.items()})
        for when in ("before", "after")
    ]
    shown, colours = in_words(pd.concat(both), results)
    names = short_names(labels, [], several["family"])
    for (family, quantity), values in shown.sort_values("depth").groupby(["family", "quantity"], sort=False):
        what = quantity_words(str(quantity))
        panel = value_panel(values, "depth", "depth", what, colours)
        if panel is not None:
            title = f"{capitalized(what)}{_BOTH}: {names.workload(str(family))}"
            file = file_names(list(names.workloads), f"tuning-{quantity}-depth-")[str(family)]
            yield Figure(file, title, f"{title}. {_depth_words(values)}", panel)


def _depth_words(values: pd.DataFrame) -> str:
    after = values[values["kind"] == "after"]
    texts = [
        f"{label} at depth {depth:g} from {plain_number(before)} to {plain_number(end)}"
        for label, depth, before, end in after[["treatment", "depth", "before", "after"]].itertuples(index=False)
    ]
    return f"Medians over the seeds: {'; '.join(texts[:_MOST_NAMED])}."
