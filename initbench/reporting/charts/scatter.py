"""The outcome against what a probe measured: one panel per workload, one mark per trial."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from initbench.reporting.charts.legend import Entry, entries_of
from initbench.reporting.charts.panel import (
    Axis,
    Specification,
    log_axis,
    outcome_axis,
    panel,
    raw,
    said,
    where,
    worst_edge,
)
from initbench.reporting.charts.style import DIVERGED, styles
from initbench.reporting.frame import GQ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.metric import Metric

_SIZE = 60
_OPACITY = 0.8


class Against(NamedTuple):
    """What the outcome is drawn against.

    Attributes:
        column: of the trials; ``<column>.saturated`` says where it says no more, if it is there.
        title: of the axis.
        log: whether the axis is logarithmic; then what is not positive is left out.
        saturated: what a hollow mark means.
    """

    column: str = GQ
    title: str = "gradient quotient (GQ), log scale"
    log: bool = True
    saturated: str = "GQ saturated (vanished gradient)"


def scatter_panels(
    trials: pd.DataFrame, metrics: Mapping[str, Metric], colours: Mapping[str, str], against: Against | None = None
) -> dict[str, Specification]:
    """Return a panel for each workload that has a trial with a value to draw, in their order.

    The horizontal axis is the same in all panels; the vertical one is `panel.outcome_axis`. A diverged trial has no
    outcome: it is a triangle at the edge of the worst ones. What is saturated is hollow. Failed trials are not drawn.

    Args:
        trials: ``workload``, ``treatment``, ``seed``, ``status``, ``outcome`` and the column; such as from
            `trials.comparable_trials`.
        metrics: of each workload.
        colours: of all treatments, as from `style.colours`.
        against: the horizontal axis; the gradient quotient by default.
    """
    against = against or Against()
    marks = _marks(trials, metrics, colours, against)
    if not marks:
        return {}
    values = [mark["x"] for workload in marks.values() for mark in workload]
    # At least a factor 2 to each side, so that a column of equal values has an axis too.
    across = log_axis(against.title, values, 2, padding=0) if against.log else Axis(against.title, padding=10)
    if not against.log:
        low, high = min(values), max(values)
        across = across._replace(domain=(low, high) if high > low else (low - 1, high + 1))
    return {workload: _panel(own, across, metrics[workload], colours, against) for workload, own in marks.items()}


def kinds(against: Against) -> tuple[Entry, ...]:
    """Return what the marks' shapes mean, whatever their colour: those that a panel may have beside discs."""
    return (Entry(against.saturated, shape="hollow"), Entry("diverged", shape=DIVERGED))


def _marks(
    trials: pd.DataFrame, metrics: Mapping[str, Metric], colours: Mapping[str, str], against: Against
) -> dict[str, list[dict[str, Any]]]:
    style = styles(colours)
    marks: dict[str, list[dict[str, Any]]] = {}
    needed = ["workload", "treatment", "seed", "status", "outcome", against.column, f"{against.column}.saturated"]
    own = trials.loc[trials["status"] != "failed", [column for column in needed if column in trials]]
    for trial in own.to_dict("records"):
        value, outcome, diverged = trial.get(against.column, math.nan), trial["outcome"], trial["status"] == "diverged"
        if not math.isfinite(value) or (against.log and value <= 0) or (math.isnan(outcome) and not diverged):
            continue
        flag = trial.get(f"{against.column}.saturated")
        saturated = not pd.isna(flag) and bool(flag)
        state = [word for word, holds in (("diverged", diverged), (against.saturated, saturated)) if holds]
        mark = {
            "x": value,
            "treatment": trial["treatment"],
            "colour": style[trial["treatment"]].colour,
            "shape": DIVERGED if diverged else style[trial["treatment"]].shape,
            "opacity": 0 if saturated else _OPACITY,
            "words": f"{trial['treatment']}, seed {trial['seed']}: {', '.join(state) or 'finished'}",
        }
        metric = metrics[trial["workload"]]
        shown = {"end": True} if diverged else {"value": metric.scale * outcome}
        if not diverged:
            mark["words"] += f", {metric.text(outcome)}"
        marks.setdefault(trial["workload"], []).append(mark | shown)
    return marks


def _panel(
    marks: list[dict[str, Any]], across: Axis, metric: Metric, colours: Mapping[str, str], against: Against
) -> Specification:
    shown = [mark["value"] for mark in marks if "value" in mark]
    encoding = {
        "x": across.channel("x"),
        "fill": raw("colour"),
        "stroke": raw("colour"),
        "shape": raw("shape"),
        "fillOpacity": raw("opacity", "quantitative"),
        "description": said(),
    }
    mark = {"type": "point", "size": _SIZE, "strokeWidth": 1.6, "opacity": 1}
    # The first layer stands there also where all diverged: it has the vertical axis.
    up = outcome_axis(metric, shown)
    layers = [{"transform": where("value"), "mark": mark, "encoding": encoding | {"y": up.up("value")}}]
    if len(shown) < len(marks):
        layers.append({"transform": where("end"), "mark": mark, "encoding": encoding | {"y": worst_edge(metric)}})
    hollow, diverged = kinds(against)
    legend = entries_of(colours, {mark["treatment"] for mark in marks})
    legend += [hollow] if any(mark["opacity"] == 0 for mark in marks) else []
    legend += [diverged] if len(shown) < len(marks) else []
    for one in marks:
        del one["treatment"]
    return panel(layers, marks, legend)
