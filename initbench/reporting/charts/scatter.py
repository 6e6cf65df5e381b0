"""The outcome against what a probe measured: one panel per workload, one mark per trial."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.metric import Metric
from initbench.reporting.charts.axis import axis, log_axis, outcome_axis, vertical, worst_edge
from initbench.reporting.charts.chart import Specification, chart
from initbench.reporting.charts.legend import Entry, entries_of
from initbench.reporting.charts.style import DIVERGED, styles
from initbench.reporting.frame import GQ

_OPACITY = 0.8


class Against(NamedTuple):
    """The horizontal axis."""

    column: str = GQ  # of the trials; ``<column>.saturated``, if there is one, says where its values mean nothing more
    title: str = "gradient quotient (GQ), log scale"
    log: bool = True  # then what is not positive is left out
    saturated: str = "GQ saturated (vanished gradient)"  # the meaning of a hollow mark


def scatter_panels(
    trials: pd.DataFrame, metrics: Mapping[str, Metric], colours: Mapping[str, str], against: Against | None = None
) -> dict[str, Specification]:
    """Return a panel for each workload that has a trial with a value to draw, in their order.

    All panels have the same horizontal axis. A diverged trial has no outcome: it is a triangle at the edge of the worst
    ones. What is saturated is hollow. Failed trials are not drawn.

    Args:
        trials: ``workload``, ``treatment``, ``seed``, ``status``, ``outcome`` and the column.
        metrics: of each workload.
        colours: of all treatments, as from `style.colours`.
        against: the horizontal axis; the gradient quotient by default.
    """
    against = against or Against()
    if against.column not in trials:
        return {}
    ran = trials[(trials["status"] != "failed") & (trials["outcome"].notna() | (trials["status"] == "diverged"))]
    ran = ran[np.isfinite(ran[against.column]) & (ran[against.column] > (0 if against.log else -math.inf))]
    if ran.empty:
        return {}
    values = list(ran[against.column])
    low, high = min(values), max(values)
    if against.log:  # a factor of 2 to each side, so that a column of equal values has an axis too
        x = log_axis(against.title, values, 2, padding=0)
    else:
        x = axis(against.title, (low, high) if high > low else (low - 1, high + 1), padding=10)
    panels = {}
    for workload, own in ran.groupby("workload", sort=False):
        metric = metrics[str(workload)]
        marks = [_mark(trial, against, metric, colours) for trial in own.to_dict("records")]
        shown = [mark["value"] for mark in marks if "value" in mark]
        legend = entries_of(colours, set(own["treatment"]))
        legend += [Entry(against.saturated, shape="hollow")] if any(mark["opacity"] == 0 for mark in marks) else []
        legend += [Entry("diverged", shape=DIVERGED)] if len(shown) < len(marks) else []
        panels[str(workload)] = chart("scatter", marks, x, vertical(outcome_axis(metric, shown)), legend)
    return panels


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
