"""What was measured in every layer, from the input to the output: one panel per workload, one line per treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.reporting.charts.values import value_panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from initbench.reporting.charts.panel import Specification


def layer_panel(
    values: pd.DataFrame,
    title: str,
    colours: Mapping[str, str],
    *,
    axis: str = "layer, from the input to the output",
    log: bool | None = None,
) -> Specification | None:
    """Return one workload's values by layer: the median over the seeds, with a band.

    Args:
        values: ``treatment``, ``layer`` (its name), ``place`` (in the model's order, from 0), ``value_median``,
            ``value_smallest``, ``value_largest``, ``unit`` (may be empty), and ``kind`` where there are lines of
            ``before`` (dashed) and ``after`` (solid).
        title: of the quantity; the unit is put behind it.
        colours: of all treatments, as from `style.colours`.
        axis: title of the horizontal axis.
        log: whether the vertical axis is logarithmic; by default as `values.value_panel` chooses.

    Returns:
        None where there is nothing to draw.
    """
    units = [unit for unit in values["unit"].dropna().unique() if unit] if "unit" in values else []
    up = f"{title} ({units[0]})" if len(units) == 1 else title
    return value_panel(values, "place", axis, up, colours, place=_layer, log_y=log)


def _layer(row: Mapping[str, Any]) -> str:
    return f"layer {row['place']:g} ({row['layer']})"
