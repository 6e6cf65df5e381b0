"""Charts of lines, one for each treatment: outcomes, other quantities, and performance profiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from initbench.comparing.formatting import typeset
from initbench.metric import Metric
from initbench.reporting.charts.axis import (
    Channel,
    axis,
    log_axis,
    needs_log,
    outcome_axis,
    shared,
    vertical,
    with_unit,
    worst_edge,
)
from initbench.reporting.charts.chart import Specification, chart
from initbench.reporting.charts.legend import Entry, entries_of
from initbench.reporting.charts.style import DIVERGED, LINE, THIN_DASH, THIN_LINE, WIDTH, Style, styles

Row = Mapping[Any, Any]
_DASHED = ("train", "before", "best")  # kinds of lines, thin and dashed beside the solid ones of test, after and stable
_KINDS = {"before": "before tuning", "after": "after tuning", "stable": "largest stable rate", "best": "best rate"}
_MOST_SYMBOLS = 12  # on a line, so that a page of many lines stays small
_MOST_HOVERED = WIDTH  # layers with their name on hover: more have less than a pixel each
_SYMBOL, _TRIANGLE = 34, 70  # sizes
LEAST_PROFILED = 8
"""The number of workloads below which a performance profile is a staircase of a few steps."""


def lines(
    points: Sequence[Row],
    colours: Mapping[str, str],
    x: Channel,
    y: Channel,
    *,
    worst: str = "top",
    apart: bool = False,
    diverged: str = "diverged",
    marked: Sequence[float] = (),
    named: Mapping[float, str] | None = None,
) -> Specification | None:
    """Return lines with bands; None if there is nothing to draw.

    A line ends where its value diverged, with a triangle at the edge of the worst values. On a logarithmic axis a value
    of 0 is a hollow symbol at the lower edge.

    Args:
        points: ``series``, ``kind`` (empty, or such as ``train``), ``x``, ``value`` (infinite if it diverged, NaN for
            no point), ``low`` and ``high`` (NaN for no band), and ``words``, which a screen reader says.
        colours: of all series, as from `style.colours`.
        x: the horizontal axis.
        y: the vertical axis.
        worst: the edge of the worst values, ``top`` or ``bottom``.
        apart: whether every point that diverged has a triangle, because each is of another network, or only the first.
        diverged: what a triangle means.
        marked: values of the vertical axis that have a dashed line.
        named: the names of values of x, which appear on hover.
    """
    points = [point for point in points if not math.isnan(point["value"])]
    series = {point["series"] for point in points}
    assert series <= set(colours), series - set(colours)
    kinds = sorted(dict.fromkeys(point["kind"] for point in points), key=lambda kind: kind in _DASHED)
    marks: list[dict[str, Any]] = []
    ended: dict[tuple[float, str], dict[str, Any]] = {}  # one for each colour at a value of x
    for (name, style), kind in product(styles(colours).items(), kinds):
        line = [point for point in points if (point["series"], point["kind"]) == (name, kind)]
        marks += _marks(line, style, y["scale"])
        lost = [point for point in line if not math.isfinite(point["value"])]
        for point in lost if apart else lost[:1]:
            triangle = {"x": point["x"], "colour": style.colour, "shape": DIVERGED, worst: point["words"]}
            ended[point["x"], style.colour] = ended.pop((point["x"], style.colour), triangle)
    if not any("value" in mark for mark in marks):
        return None
    legend = entries_of(colours, series)
    if len(kinds) > 1:
        shapes = {kind: "dashed" if kind in _DASHED else "line" for kind in kinds if kind}
        legend += [Entry(_KINDS.get(kind, kind), shape=shape) for kind, shape in shapes.items()]
    legend += [Entry(diverged, shape=DIVERGED)] if ended else []
    legend += [Entry("0", shape="hollow")] if any("zero" in mark for mark in marks) else []
    left = Counter(at for at, _ in ended)
    for (at, _), triangle in ended.items():  # of several at one place, each is seen behind the next
        marks.append(triangle | {"size": _TRIANGLE * left[at]})
        left[at] -= 1
    marks += [{"marked": value} for value in marked]
    for at, name in (named or {}).items():
        low, high = x["scale"]["domain"]
        marks.append({"from": max(at - 0.5, low), "to": min(at + 0.5, high), "name": name})
    return chart("lines", marks, x, vertical(y), legend)


def _marks(line: Sequence[Row], style: Style, scale: Mapping[str, Any]) -> list[dict[str, Any]]:
    log = scale.get("type") == "log"
    finite = [point for point in line if math.isfinite(point["value"])]
    last, most = len(finite) - 1, _MOST_SYMBOLS - 1
    with_symbol = {round(i * last / most) for i in range(most + 1)} if last > most else set(range(last + 1))
    marks = []
    for i, point in enumerate(finite):
        thin = point["kind"] in _DASHED
        symbol = {"colour": style.colour, "shape": style.shape, "size": _SYMBOL / (2 if thin else 1)}
        if log and point["value"] <= 0:
            marks.append({"x": point["x"], "zero": point["words"], **symbol})
            continue
        mark = {"x": point["x"], "value": point["value"], "line": f"{point['kind']} {point['series']}"}
        mark |= {"colour": style.colour, "dash": list(THIN_DASH if thin else style.dash)}
        mark |= {"width": THIN_LINE if thin else LINE}
        if _has_band(point):
            mark |= {"low": max(point["low"], scale["domain"][0]) if log else point["low"], "high": point["high"]}
        marks.append(mark | ({"words": point["words"], **symbol} if i in with_symbol else {}))
    return marks


def _has_band(point: Row) -> bool:
    return math.isfinite(point["low"]) and math.isfinite(point["high"])


def _points(
    frame: pd.DataFrame, x: str, value: str, kind: str, words: Callable[[Row], str], scale: float = 1.0
) -> list[Row]:
    """Return the points of `lines` from columns ``<value>_median``, ``<value>_smallest`` and ``<value>_largest``."""
    ends = {"value": f"{value}_median", "low": f"{value}_smallest", "high": f"{value}_largest"}
    return [
        {"series": str(row["treatment"]), "kind": row.get(kind, ""), "x": row[x], "words": words(row)}
        | {name: scale * float(row[column]) for name, column in ends.items()}
        for row in frame.to_dict("records")
    ]


def _drawn(frame: pd.DataFrame, value: str, scale: float = 1.0) -> list[float]:
    """Return the values and the ends of bands that are drawn on the vertical axis."""
    ends = scale * frame[[f"{value}_median", f"{value}_smallest", f"{value}_largest"]].to_numpy(dtype=float)
    is_drawn = np.isfinite(ends[:, :1]) & (np.isfinite(ends) | [True, False, False])
    is_drawn[:, 1:] &= np.isfinite(ends[:, 1:]).all(axis=1, keepdims=True)
    return [float(end) for end in ends[is_drawn]]


def line_panel(
    curves: pd.DataFrame,
    x: str,
    title: str,
    colours: Mapping[str, str],
    metric: Metric,
    *,
    beside: pd.DataFrame | None = None,
) -> Specification | None:
    """Return one workload's outcomes: the median over the seeds, and a band from the smallest to the largest.

    There is no band if a seed has diverged. Lines of the split ``train`` are thin and dashed.

    Args:
        curves: ``treatment``, the column `x`, ``outcome_median``, ``outcome_smallest``, ``outcome_largest`` (as the
            metric stores them, infinite if diverged), ``seeds``, ``diverged`` (how many), and maybe ``split``.
        x: the column of the horizontal axis; each ``depth`` is a network of its own.
        title: of the horizontal axis.
        colours: of all treatments, as from `style.colours`.
        metric: of the outcomes.
        beside: the rows of all panels that share the vertical axis (`axis.shared`); by default only these.

    Returns:
        None if there is nothing to draw.
    """
    curves = curves.dropna(subset=x)
    if not (shown := _drawn(curves, "outcome", metric.scale)):
        return None
    points = _points(curves, x, "outcome", "split", lambda row: _outcome_words(row, x, metric), metric.scale)
    is_depth, positions = x == "depth", sorted({point["x"] for point in points})
    low = positions[0] if is_depth else min(0, positions[0])
    across = axis(title, (low, positions[-1]), ticks=positions if is_depth else None, padding=10)
    if is_depth and needs_log(positions):
        across |= {"title": f"{title}, log scale", "scale": across["scale"] | {"type": "log"}}
    up = outcome_axis(metric, shown if beside is None else shared(shown, _drawn(beside, "outcome", metric.scale)))
    return lines(points, colours, across, up, worst=worst_edge(metric), apart=is_depth)


def _outcome_words(row: Row, x: str, metric: Metric) -> str:
    """Return ``kaiming, depth 28: 16.40 % (16.10 % to 16.80 %), 3 seeds``."""
    median, low, high = (row[f"outcome_{end}"] for end in ("median", "smallest", "largest"))
    value = metric.text(median) if math.isfinite(median) else "diverged"
    if row["seeds"] > 1 and math.isfinite(low) and math.isfinite(high):
        value += f" ({metric.text(low)} to {metric.text(high)})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] != 1 else ''}"
    diverged = f", {row['diverged']} diverged" if row["diverged"] else ""
    split = f", {row['split']}" if row.get("split") else ""
    return f"{row['treatment']}{split}, {x} {row[x]:,.0f}: {value}, {seeds}{diverged}"


def value_panel(
    values: pd.DataFrame,
    x: str,
    across: str,
    up: str,
    colours: Mapping[str, str],
    *,
    x_words: Callable[[Row], str] | None = None,
    log_x: bool = False,
    log_y: bool | None = None,
    unfinished: str = "not finite",
    marked: Sequence[float] = (),
    named: Mapping[float, str] | None = None,
    beside: pd.DataFrame | None = None,
) -> Specification | None:
    """Return the lines of a quantity: the median over the seeds, and a band from the smallest to the largest.

    Values that are not finite are triangles at the upper edge; on a logarithmic axis a value of 0, such as that of a
    vanished gradient, is a hollow symbol at the lower edge. Rows without a value are left out.

    Args:
        values: ``treatment``, the column `x`, ``value_median``, ``value_smallest``, ``value_largest``, and maybe
            ``kind``: lines of ``before`` are dashed beside those of ``after``, those of ``best`` rates beside
            ``stable`` ones.
        x: the horizontal axis' column.
        across: the title of the horizontal axis.
        up: the title of the vertical axis, with its unit in parentheses.
        colours: of all treatments, as from `style.colours`.
        x_words: says from a row where its point is; by default the column's name and value.
        log_x: whether the horizontal axis is logarithmic; then what is not positive is left out.
        log_y: whether the vertical axis is; by default if no value is negative and the positive ones reach over more
            than a decade.
        unfinished: what a triangle means.
        marked: values that have a dashed line; on a logarithmic axis the positive ones.
        named: the names of values of x, which appear on hover.
        beside: the rows of all panels that share the vertical axis (`axis.shared`); by default only these.

    Returns:
        None if there is nothing to draw.
    """
    values = values.dropna(subset=[x, "value_median"])
    values = values[values[x] > 0] if log_x else values
    if not (shown := _drawn(values, "value")):
        return None
    at = x_words or (lambda row: f"{x} {row[x]:,g}")
    points = _points(values, x, "value", "kind", lambda row: _value_words(row, at))
    shown = [*(shown if beside is None else shared(shown, _drawn(beside, "value"))), *marked]
    positive = [value for value in shown if value > 0]
    is_log = bool(positive) and (needs_log(shown) if log_y is None else log_y)
    positions = [float(point["x"]) for point in points]
    x_axis = log_axis(across, positions, 1.1, padding=10) if log_x else _linear_axis(across, sorted(set(positions)))
    y_axis = log_axis(up, positive) if is_log else axis(up, (min(shown), max(shown)), nice=True)
    marked = [value for value in marked if value > 0 or not is_log]
    return lines(points, colours, x_axis, y_axis, apart=True, diverged=unfinished, marked=marked, named=named)


def _linear_axis(title: str, positions: list[float]) -> Channel:
    low, high = positions[0], positions[-1]
    few = high - low < 10 and all(position.is_integer() for position in positions)
    domain = (low, high) if high > low else (low - 1, high + 1)
    return axis(title, domain, ticks=positions if few else None, padding=10)


def _value_words(row: Row, x_words: Callable[[Row], str]) -> str:
    median, low, high = (float(row[f"value_{end}"]) for end in ("median", "smallest", "largest"))
    kind = str(row.get("kind") or "")
    text = number(median)
    if math.isfinite(median) and math.isfinite(low) and math.isfinite(high) and low < high:
        text += f" ({number(low)} to {number(high)})"
    return f"{', '.join(filter(None, (str(row['treatment']), _KINDS.get(kind, kind), x_words(row))))}: {text}"


def number(value: float) -> str:
    """Return a value in three digits: ``0.012``, ``1.5·10⁻⁷``, or ``not finite``."""
    return typeset(f"{value:.3g}") if math.isfinite(value) else "not finite"


def layer_panel(
    values: pd.DataFrame,
    title: str,
    colours: Mapping[str, str],
    *,
    axis: str = "layer, from the input to the output",
    log: bool | None = None,
    **options: Any,
) -> Specification | None:
    """Return one workload's values by layer, as `value_panel` draws them, with the layers' names on hover.

    Args:
        values: as for `value_panel`, with ``layer`` (its name), ``place`` (in the model's order, from 0) and maybe
            ``unit``, which is put behind the title.
        title: of the quantity.
        colours: of all treatments, as from `style.colours`.
        axis: title of the horizontal axis.
        log: whether the vertical axis is logarithmic.
        **options: of `value_panel`.
    """
    units = [unit for unit in values["unit"].dropna().unique() if unit] if "unit" in values else []
    up = with_unit(title, units[0] if len(units) == 1 else "")

    def layer(row: Row) -> str:
        return f"layer {row['place']:g} ({row['layer']})"

    named = {float(row["place"]): layer(row) for row in values.to_dict("records")}
    if len(named) > _MOST_HOVERED:
        named = {}
    return value_panel(values, "place", axis, up, colours, x_words=layer, log_y=log, named=named, **options)


def profile_panel(profiles: pd.DataFrame, title: str, colours: Mapping[str, str]) -> Specification:
    """Return performance profiles, whose lines rise in steps.

    Args:
        profiles: as from `statistics.profiles.performance_profiles`.
        title: of the horizontal axis, which is logarithmic.
        colours: of all treatments, as from `style.colours`.
    """
    end = max(float(profiles.index.max()) * 1.15, 1.5)  # beyond the last step, so that its height is seen
    style, rows = styles(colours), []
    for label, profile in profiles.items():
        name = str(label)
        look = {"colour": style[name].colour, "dash": list(style[name].dash), "shape": style[name].shape, "line": name}
        for tau, share, rises in zip(profile.index, profile, profile.diff() != 0, strict=True):
            words = f"{name}: within a factor of {tau:.3g} of the best on {100 * share:.0f} % of the workloads"
            rows.append({"tau": float(tau), "share": 100 * float(share), **look} | ({"words": words} if rises else {}))
        rows.append({"tau": end, "share": 100 * float(profile.iloc[-1]), **look})
    x = log_axis(title, (1, end), 1, padding=6) | {"title": title}
    y = axis("share of the workloads (%)", (0, 100), padding=4)
    return chart("profile", rows, x, y, entries_of(colours, set(map(str, profiles.columns))))
