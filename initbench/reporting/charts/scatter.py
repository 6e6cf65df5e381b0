"""The outcome against the gradient quotient: one SVG panel per workload, one mark per trial.

The panels are drawn without scripts, fonts or colours of their own for text and axes (``currentColor``), so that they
follow the page they stand in. The page draws the legend.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd
import vl_convert

from initbench.reporting.frame import GQ, natural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric

# Told apart with any common colour blindness, and on white and on dark ground (Okabe and Ito without black and
# yellow, then olive, violet, grey and brown). Further treatments begin again, with dashed lines.
PALETTE = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999933", "#8a63d2", "#8c8c8c", "#a0522d",
)  # fmt: skip
_DASHES = ((), (6, 3), (2, 2), (8, 3, 2, 3))
MARKS = "marks"
HEIGHT = 220  # of a panel without its axis, in pixels
KINDS = ("finished", "GQ saturated (vanished gradient)", "diverged", "diverged, GQ saturated")


def colours(treatments: list[str]) -> dict[str, str]:
    """Return a colour for each treatment, in natural order of the names."""
    names = sorted(set(treatments), key=natural)
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}


def styles(colours: Mapping[str, str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the colour and the dash of each treatment's lines: lengths on and off, empty for a solid line.

    Args:
        colours: of all treatments, as from `colours`.
    """
    return {
        name: (colour, _DASHES[i // len(PALETTE) % len(_DASHES)]) for i, (name, colour) in enumerate(colours.items())
    }


def stroke_dash(colours: Mapping[str, str]) -> dict[str, alt.StrokeDash]:
    """Return what to encode so that lines of a field ``treatment`` are dashed; nothing where all are solid.

    Args:
        colours: of all treatments, as from `colours`.
    """
    dashes = [list(dash) for _, dash in styles(colours).values()]
    if not any(dashes):
        return {}
    scale = alt.Scale(domain=list(colours), range=[dash or [1, 0] for dash in dashes])
    return {"strokeDash": alt.StrokeDash("treatment:N", scale=scale, legend=None)}


def panels(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, str]:
    """Return an SVG for each workload that has a trial with a positive gradient quotient, in their order.

    The horizontal axis is logarithmic and the same in all panels; the vertical one is `outcome_axis`. A diverged trial
    has no outcome and is marked at the edge of the worst ones. Failed trials are not drawn.

    Args:
        trials: as from `comparison.comparable_trials`.
        metrics: of each workload, as from `comparison.workload_metrics`.
    """
    marks = _marks(trials, metrics)
    if not marks:
        return {}
    quotients = [mark["quotient"] for workload in marks.values() for mark in workload]
    # At least a factor 2 to each side, so that a column of equal values has an axis too.
    domain = [min(quotients) / 2, max(quotients) * 2]
    return {workload: _svg(own, domain, metrics[workload]) for workload, own in marks.items()}


def _marks(trials: pd.DataFrame, metrics: Mapping[str, Metric]) -> dict[str, list[dict[str, Any]]]:
    palette = colours(list(trials["treatment"]))
    marks: dict[str, list[dict[str, Any]]] = {}
    for trial in trials[trials["status"] != "failed"].to_dict("records"):
        quotient, outcome, diverged = trial.get(GQ, math.nan), trial["outcome"], trial["status"] == "diverged"
        if not quotient > 0 or (math.isnan(outcome) and not diverged):
            continue
        flag = trial.get(f"{GQ}.saturated")
        saturated = not pd.isna(flag) and bool(flag)
        mark = {
            "quotient": quotient,
            "colour": palette[trial["treatment"]],
            "shape": "triangle-up" if diverged else "circle",
            "opacity": 0 if saturated else 0.8,
            "words": f"{trial['treatment']}, seed {trial['seed']}: {KINDS[2 * diverged + saturated]}",
        }
        value = {} if diverged else {"value": metrics[trial["workload"]].scale * outcome}
        marks.setdefault(trial["workload"], []).append(mark | value)
    return marks


def _svg(marks: list[dict[str, Any]], domain: list[float], metric: Metric) -> str:
    shown = [mark["value"] for mark in marks if "value" in mark]
    base = (
        alt.Chart(alt.NamedData(MARKS))
        .mark_point(size=70, strokeWidth=1.6, opacity=1)
        .encode(
            x=alt.X(
                "quotient:Q",
                title="gradient quotient (GQ), log scale",
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(values=_ticks(*domain), format="~g"),
            ),
            fill=alt.Fill("colour:N", scale=None),
            stroke=alt.Stroke("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            fillOpacity=alt.FillOpacity("opacity:Q", scale=None),
            description="words:N",
        )
    )
    finished = base.transform_filter("isValid(datum.value)").encode(y=outcome_axis(metric, shown))
    diverged = base.transform_filter("!isValid(datum.value)").encode(y=alt.value(worst_edge(metric)))
    return drawn(alt.layer(finished, diverged), marks)


def drawn(chart: alt.LayerChart | alt.FacetChart, marks: list[dict[str, Any]], height: int = HEIGHT) -> str:
    """Return a panel as SVG, in the size and style of all panels.

    Args:
        chart: of the data named `MARKS`.
        marks: these data. They are put in at last: altair copies and checks again and again what a chart holds.
        height: of the drawing without its axis, in pixels.
    """
    styled = (
        chart.properties(width=300, height=height, background="transparent")
        .configure_view(stroke="currentColor", strokeOpacity=0.25)
        .configure_axis(
            labelColor="currentColor",
            titleColor="currentColor",
            domainColor="currentColor",
            tickColor="currentColor",
            gridColor="currentColor",
            gridOpacity=0.12,
            titleFontWeight="normal",
            labelFontSize=11,
            titleFontSize=12,
        )
    )
    specification = styled.to_dict(validate=False)
    specification["datasets"] = {MARKS: marks}
    version = "_".join(alt.SCHEMA_VERSION.split(".")[:2])
    return str(vl_convert.vegalite_to_svg(specification, vl_version=version))


def outcome_axis(metric: Metric, shown: Sequence[float], field: str = "value") -> alt.Y:
    """Return the vertical axis of a metric's values.

    It begins at 0 where that is the best value and ends above the largest, of shares at 1 % at the least; for other
    metrics it is that of the values.

    Args:
        metric: of the values.
        shown: what is drawn, in the unit of the axis.
        field: that it is of.
    """
    title = metric.title + (f" ({metric.unit})" if metric.unit else "")
    scale = alt.Scale(zero=False, nice=True, padding=8)
    if metric.best == 0 and metric.better == "lower":
        least = 1 if metric.unit == "%" else 1e-9
        scale = alt.Scale(domain=[0, max(1.08 * max(shown, default=0), least)], nice=True)
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5, minExtent=28))


def worst_edge(metric: Metric) -> int:
    """Return where what diverged is marked, in pixels from the upper edge: the edge of the worst values."""
    return 0 if metric.better == "lower" else HEIGHT


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten in a range; where this is over two decades, some powers alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    if len(powers) <= 4:
        return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    return [10.0**p for p in powers if p % math.ceil(len(powers) / 8) == 0 and low <= 10.0**p <= high]
