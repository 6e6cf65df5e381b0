"""The outcome against what a probe measured: one panel per workload, one mark per trial."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.metric import Metric
from initbench.reporting.charts.axis import Channel, axis, log_axis, outcome_axis, vertical, worst_edge
from initbench.reporting.charts.chart import Specification, chart
from initbench.reporting.charts.legend import Entry, entries_of
from initbench.reporting.charts.style import DIVERGED, styles
from initbench.reporting.frame import GQ

_OPACITY = 0.5  # so that marks behind others are seen
_SIZE, _RING = 60, 0.4  # of a mark; by how much a mark around it is wider
_PARTS = 40  # of an axis: marks in one part hide one another


class Against(NamedTuple):
    """The horizontal axis."""

    column: str = GQ  # of the trials; ``<column>.saturated``, if there is one, says where its values mean nothing more
    title: str = "gradient quotient (GQ)"
    log: bool = True  # then what is not positive is left out
    saturated: str = "GQ saturated (vanished gradient)"  # the meaning of a hollow mark


def scatter_panels(
    trials: pd.DataFrame, metrics: Mapping[str, Metric], colours: Mapping[str, str], against: Against
) -> dict[str, Specification]:
    """Return a panel for each workload that has a trial with a value to draw, in their order.

    A panel's horizontal axis goes over its trials with an outcome. A diverged trial has none: it is a triangle at the
    edge of the worst ones, and at the end of the horizontal axis if its value lies beyond. What is saturated is hollow.
    Of treatments at one place, each is seen around the next. Failed trials are not drawn.

    Args:
        trials: ``workload``, ``treatment``, ``seed``, ``status``, ``outcome`` and the column.
        metrics: of each workload.
        colours: of all treatments, as from `style.colours`.
        against: the horizontal axis.
    """
    if against.column not in trials:
        return {}
    ran = trials[(trials["status"] != "failed") & (trials["outcome"].notna() | (trials["status"] == "diverged"))]
    ran = ran[np.isfinite(ran[against.column]) & (ran[against.column] > (0 if against.log else -math.inf))]
    used = {"workload", "treatment", "seed", "status", "outcome", against.column, f"{against.column}.saturated"}
    ran = ran[[column for column in ran.columns if column in used]]  # 100 columns take long as mappings
    panels = {}
    for workload, rows in ran.groupby("workload", sort=False):
        metric = metrics[str(workload)]
        marks = [_mark(trial, against, metric, colours) for trial in rows.to_dict("records")]
        shown = [mark["value"] for mark in marks if "value" in mark]
        x = _axis(against, [mark["x"] for mark in marks if "value" in mark or not shown])
        y = outcome_axis(metric, shown)
        legend = entries_of(colours, set(rows["treatment"]))
        legend += [Entry(against.saturated, shape="hollow")] if any(mark["opacity"] == 0 for mark in marks) else []
        legend += [Entry("diverged", shape=DIVERGED)] if len(shown) < len(marks) else []
        panels[str(workload)] = chart("scatter", _nested(marks, x, y), x, vertical(y), legend)
    return panels


def _axis(against: Against, values: Sequence[float]) -> Channel:
    if against.log:  # a factor of 2 to each side, so that a column of equal values has an axis too
        return log_axis(against.title, values, 2, padding=0)
    low, high = min(values), max(values)
    linear = axis(against.title, (low, high) if high > low else (low - 1, high + 1), padding=10)
    return linear | {"scale": linear["scale"] | {"clamp": True}}


def _nested(marks: Sequence[dict[str, Any]], x: Channel, y: Channel) -> list[dict[str, Any]]:
    """Return the marks, the largest first; of several treatments at one place each is smaller than the one before."""
    positions = list(
        zip(_parts([mark["x"] for mark in marks], x), _parts([mark.get("value") for mark in marks], y), strict=True)
    )
    looks = [(mark["colour"], mark["shape"]) for mark in marks]
    here: dict[tuple[float, float], dict[tuple[str, str], int]] = defaultdict(dict)
    for position, look in zip(positions, looks, strict=True):
        here[position].setdefault(look, len(here[position]))
    within = [len(here[position]) - 1 - here[position][look] for position, look in zip(positions, looks, strict=True)]
    sized = [mark | {"size": _SIZE * (1 + _RING * others) ** 2} for mark, others in zip(marks, within, strict=True)]
    return sorted(sized, key=lambda mark: -mark["size"])


def _parts(values: Sequence[float | None], channel: Channel) -> list[float]:
    """Return in which part of an axis each value lies, -1 if there is no value."""
    known = [value for value in values if value is not None]
    low, high = channel["scale"].get("domain") or (min(known, default=0), max(known, default=1))
    size = math.log if channel["scale"].get("type") == "log" else float
    span = (size(high) - size(low)) or 1.0
    return [
        -1 if value is None else round(_PARTS * (size(min(max(value, low), high)) - size(low)) / span)
        for value in values
    ]


def _mark(trial: Mapping[Any, Any], against: Against, metric: Metric, colours: Mapping[str, str]) -> dict[str, Any]:
    style, flag = styles(colours)[trial["treatment"]], trial.get(f"{against.column}.saturated")
    diverged, saturated = trial["status"] == "diverged", not pd.isna(flag) and bool(flag)
    state = [word for word, holds in (("diverged", diverged), (against.saturated, saturated)) if holds] or ["finished"]
    words = f"{trial['treatment']}, seed {trial['seed']}: {', '.join(state)}"
    mark = {"x": trial[against.column], "colour": style.colour, "opacity": 0 if saturated else _OPACITY}
    if diverged:
        return mark | {"shape": DIVERGED, "words": words, worst_edge(metric): True}
    words += f", {metric.text(trial['outcome'])}"
    return mark | {"shape": style.shape, "words": words, "value": metric.scale * trial["outcome"]}
