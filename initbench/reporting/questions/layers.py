"""What did the network look like at initialization? Measurements by layer and along curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.names import Name, label_of
from initbench.reporting.answer import Answer
from initbench.reporting.charts.axis import with_unit
from initbench.reporting.charts.chart import Specification
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import layer_panel, value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.measurements import (
    KINDS,
    distances,
    left_of_statistics,
    level,
    measurement_tables,
    of_weights,
)
from initbench.reporting.quantities import plain_number, quantity_words, short_quantities
from initbench.reporting.questions.line_figures import drawn, in_words
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, say
from initbench.reporting.tables import Table, table_of

WEIGHT_AXIS = "weight, from the input to the output"
_CELL = ["probe", "form", "workload", "treatment"]
_MOST_SENTENCES = 6
_TITLES = {"probe_layers": "Every value by layer", "probe_curves": "Every point of the curves"}
_MOST_NAMED = 12


class Layers(NamedTuple):
    """What probes measured by layer and along curves, before training.

    Attributes:
        profiles: as from `measurements.profiles`.
        levels: one row for each probe, workload and treatment: ``typical``, ``smallest`` and ``largest`` of the layers'
            medians over seeds, their number ``layers`` and ``factor``, the largest over the smallest
            (`measurements.level`, which says which layers count, and that those of layers have no sign).
    """

    profiles: pd.DataFrame
    levels: pd.DataFrame


def layers(results: Results | str | Path, *, probe: str = "", workload: str = "", reference: str = "") -> Answer | None:
    """Return what probes measured by layer and along curves; None if none did.

    Args:
        results: as from `read_results`, or a suite's folder.
        probe: one alone, such as ``gradient_norm.per_layer``; all by default.
        workload: one alone, by its short or whole name; all by default.
        reference: a treatment, by its short or whole name; the table ``distances`` then says how far the others are
            from it, layer by layer (`measurements.distances`).

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such probe, workload or
            treatment.
    """
    results = as_results(results)
    profiles = results.profiles
    if not len(profiles):
        return None
    if probe:
        known = {name: Name(name) for name in dict.fromkeys(profiles["probe"])}
        profiles = profiles[profiles["probe"] == label_of(probe, known, "probe by layer")]
    if workload:
        profiles = profiles[profiles["workload"] == label_of(workload, results.names.workloads, "workload")]
        if not len(profiles):
            return None
    rows = []
    for cell, part in profiles.groupby(_CELL, sort=False):
        sizes = level(part)
        rows.append(dict(zip(_CELL, cell, strict=True)) | sizes._asdict() | {"factor": sizes.factor})
    facts = Layers(profiles, pd.DataFrame(rows))
    note = (
        "Medians over seeds, of layers without their signs; of the weights alone if the names of the layers identify "
        "them. Typical: the median of the layers, or the last value of a curve."
    )
    show = "probe workload treatment layers typical smallest largest factor"
    every = measurement_tables(results.by_id, results.trials)
    tables = [table_of(results, "layers", "By treatment", facts.levels, show, note)]
    tables += [table_of(results, name, _TITLES[name], frame) for name, frame in every.items()]
    tables += [_distance_table(results, profiles, reference)] if reference else []
    figures, left = _figures(profiles, results)
    remarks = [left_of_statistics(every), *left]
    sentences = list(_sentences(facts.levels, results))[:_MOST_SENTENCES]
    question = "What did the network look like at initialization?"
    return Answer("layers", question, sentences, tables, figures, remarks, facts)


def _distance_table(results: Results, profiles: pd.DataFrame, reference: str) -> Table:
    every = measurement_tables(results.by_id, results.trials).get("probe_layers", profiles[:0])
    every = every[every["probe"].isin(profiles["probe"]) & every["workload"].isin(profiles["workload"])]
    label = label_of(reference, results.names.treatments, results.terms.treatment)
    frame = distances(every, label)
    title = f"Distance from {results.names.treatment(label)}: the mean over the weights of |log(value / its value)|"
    return table_of(results, "distances", title, frame, "probe workload treatment seeds median nearest farthest")


def farthest(levels: pd.DataFrame) -> tuple[str, float]:
    """Return the workload on which the typical values of two treatments lie farthest apart, and by which factor.

    The factor is +∞ if one of them is 0 or their signs differ, and 1 if there is one treatment, or all are equal.

    Args:
        levels: rows of one probe with a finite value each.
    """
    typical = levels.groupby("workload", sort=False)["typical"].agg(["min", "max"])
    factors = [
        1.0 if high == low else high / low if low > 0 else low / high if high < 0 else math.inf
        for low, high in zip(typical["min"], typical["max"], strict=True)
    ]
    first = max(range(len(factors)), key=factors.__getitem__)
    return str(typical.index[first]), factors[first]


def _sentences(levels: pd.DataFrame, results: Results) -> Iterator[Sentence]:
    """Yield for each probe where treatments lie farthest apart, and where the layers of one network do."""
    names = results.names
    for name, rows in levels.groupby("probe", sort=False):
        probe, quantity = str(name), quantity_words(str(name))
        known = rows[rows["layers"] > 0]
        if not len(known):
            yield say("No value of {quantity} is finite.", quantity=quantity, subject=probe)
            continue
        by_layer = known["form"].iloc[0] == "per_layer"
        workload, apart = farthest(known)
        here = known[known["workload"] == workload].sort_values("typical", kind="stable").to_dict("records")
        low, high = here[0], here[-1]
        first, second = (names.treatment(row["treatment"]) for row in (low, high))
        where = names.workload(workload)
        if apart > 1:
            whose = "a layer’s typical {quantity}" if by_layer else "the last {quantity}"
            small, large = plain_number(low["typical"]), plain_number(high["typical"])
            text = f"On {{where!b}}, {whose} is {small} with {{first!b}} and {large} with {{second!b}}."
        else:
            ends = f"between {plain_number(low['smallest'])} and {plain_number(low['largest'])}"
            text = f"On {{where!b}}, the {{quantity}}{' of a layer' * by_layer} is {ends} with {{first!b}}."
        yield say(text, where=where, quantity=quantity, first=first, second=second, subject=probe)
        wide = known[known["factor"].notna()] if by_layer else known[:0]
        if len(wide) and wide["factor"].max() > 1:
            row = wide.iloc[int(wide["factor"].argmax())]
            by = f"{plain_number(row['factor'])}-fold" if math.isfinite(row["factor"]) else "down to 0"
            yield say(
                f"Between the layers of one network the {{quantity}} varies most with {{who!b}} on {{where!b}}: {by}.",
                quantity=quantity,
                who=names.treatment(row["treatment"]),
                where=names.workload(row["workload"]),
                subject=probe,
            )


def _figures(profiles: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    """Return every probe by layer or along its curve, on each workload, and a sentence on those left out."""
    shown, colours = in_words(profiles, results)
    quantities = short_quantities(map(str, results.profiles["probe"]))
    figures: list[Figure] = []
    left: list[str] = []
    for (probe, form), rows in shown.groupby(["probe", "form"], sort=False):
        labels, more = drawn(rows, "workload", f"{KINDS[str(form)]}.csv")
        left += more
        files, what = file_names(labels, f"{probe}-"), quantities[str(probe)]
        for label in labels:
            part, where = rows[rows["workload"] == label], results.names.workload(label)
            panel, over, note = _panel(part, what, colours, rows)
            title = f"{capitalized(what)} by {over}: {where}"
            if panel is None:
                left.append(f"{capitalized(what)} on {where} has no finite value, so nothing is drawn.")
            else:
                figures.append(Figure(files[label], title, f"{title}. {_alt(part)}", panel, note, subject=where))
    return figures, list(dict.fromkeys(left))


def weights(frame: pd.DataFrame, within: Sequence[str]) -> pd.DataFrame:
    """Return the rows of weights if the layers' names identify them, numbered from 0.

    Args:
        frame: with ``layer`` and ``place``.
        within: the columns within which places are those of one model.
    """
    rows = of_weights(frame)
    return rows.assign(place=rows.groupby(list(within), sort=False)["place"].rank(method="dense") - 1)


def _panel(
    part: pd.DataFrame, what: str, colours: dict[str, str], beside: pd.DataFrame
) -> tuple[Specification | None, str, str]:
    """Return a workload's panel, what its horizontal axis is, and a note on what it leaves out."""
    if part["form"].iloc[0] == "per_layer":
        rows = weights(part, ["workload"])
        note = "Weights alone; the table has every parameter." if len(rows) < len(part) else ""
        axis = WEIGHT_AXIS if rows["layer"].str.endswith("weight").all() else "layer, from the input to the output"
        beside = weights(beside, ["workload"])
        return layer_panel(rows, what, colours, axis=axis, beside=beside), "layer", note
    over, unit = part["over"].iloc[0] or "place", part["unit"].iloc[0]
    return value_panel(part, "place", over, with_unit(what, unit), colours, beside=beside), over, ""


def _alt(part: pd.DataFrame) -> str:
    """Return between which values the line of each treatment lies, the largest first."""
    levels = {str(treatment): level(rows) for treatment, rows in part.groupby("treatment", sort=False)}
    known = sorted((name for name in levels if levels[name].layers), key=lambda name: -levels[name].typical)
    texts = [
        f"{name} from {plain_number(levels[name].smallest)} to {plain_number(levels[name].largest)}" for name in known
    ]
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"Medians over the seeds, the largest first: {'; '.join(texts[:_MOST_NAMED])}{more}."
