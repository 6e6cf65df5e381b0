"""What a tuner lowers, such as the gradient quotient, by its steps: one panel per workload, one line per treatment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.reporting.charts.values import value_panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from initbench.reporting.charts.panel import Specification


def tuning_panel(
    values: pd.DataFrame, colours: Mapping[str, str], *, axis: str = "steps of the tuner", log: bool | None = True
) -> Specification | None:
    """Return one workload's objectives over the steps of their tuners: the median over the seeds, with a band.

    Args:
        values: ``treatment``, ``step``, ``value_median``, ``value_smallest``, ``value_largest``, ``quantity`` (what the
            objective is, in words).
        colours: of all treatments, as from `style.colours`.
        axis: title of the horizontal axis.
        log: whether the vertical axis is logarithmic.

    Returns:
        None where there is nothing to draw.
    """
    quantities = list(dict.fromkeys(values["quantity"]))
    title = quantities[0] if len(quantities) == 1 else "objective"
    return value_panel(values, "step", axis, title, colours, log_y=log)
