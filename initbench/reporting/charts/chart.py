"""A chart of a kind that `specifications.yaml` declares, with the rows that it draws, its axes and its legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from initbench.reporting.charts.axis import Channel
from initbench.reporting.charts.legend import Entry, legend_data
from initbench.reporting.charts.style import HEIGHT, WIDTH

Specification = dict[str, Any]
_ROWS = "marks"
_TEXTS = ("detail", "description", "text")
_NUMBERS = ("size", "strokeWidth", "fillOpacity")


def chart(
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    x: Channel,
    y: Channel,
    legend: Iterable[Entry] = (),
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> Specification:
    """Return the specification of a chart of a kind, each of its rows with the columns of the layers that draw it.

    Width and height are in pixels, without the axes.
    """
    columns: set[str] = set().union(*rows)
    layers = [layer for layer in _specifications()[kind] if "only" not in layer or layer["only"] in columns]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.20.1.json",
        "width": width,
        "height": height,
        "datasets": {_ROWS: list(rows)},
        "data": {"name": _ROWS},
        "layer": [_expanded(layer, {"x": x, "y": y}) for layer in layers],
        "usermeta": legend_data(legend),
    }


@cache
def _specifications() -> dict[str, list[Specification]]:
    file = Path(__file__).with_name("specifications.yaml")
    specifications: dict[str, list[Specification]] = YAML(typ="safe").load(file.read_text(encoding="utf-8"))
    return specifications


def _expanded(layer: Specification, axes: Mapping[str, Channel]) -> Specification:
    full = deepcopy(layer)
    if only := full.pop("only", ""):
        full["transform"] = [{"filter": f"isValid(datum.{only})"}]
    for channel, column in full["encoding"].items():
        if isinstance(column, str):
            full["encoding"][channel] = {"field": column, **_encoding(channel, axes)}
    return full


def _encoding(channel: str, axes: Mapping[str, Channel]) -> Channel:
    if channel in {"x2", "y2"}:
        return {}
    if channel in _TEXTS:
        return {"type": "nominal"}
    return axes.get(channel) or {"type": "quantitative" if channel in _NUMBERS else "nominal", "scale": None}
