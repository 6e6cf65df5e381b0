"""The figures of a report, each with its words: what stands above it, and what it shows for who cannot see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from initbench.reporting.charts import panels
from initbench.reporting.formatting import percent, quotient
from initbench.reporting.frame import GQ
from initbench.reporting.line_charts import line_panel
from initbench.reporting.parts import Figure, file_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_LONGEST_LIST = 12


def quotient_figures(trials: pd.DataFrame) -> dict[str, Figure]:
    """Return test error against gradient quotient for each group that has something to draw.

    Args:
        trials: as from `comparison.comparable_trials`.
    """
    drawings = panels(trials)
    names = file_names(list(drawings), "quotient-")
    return {
        group: Figure(
            names[group],
            f"Test error against gradient quotient: {group}",
            _quotient_alt(group, trials[trials["group"] == group]),
            drawing,
        )
        for group, drawing in drawings.items()
    }


def curve_figures(curves: pd.DataFrame, colours: Mapping[str, str]) -> dict[str, list[Figure]]:
    """Return for each group its training curves, by step and by compute.

    Args:
        curves: as from `curves.training_curves`.
        colours: as from `charts.colours`.
    """
    kinds = [
        ("step", "training steps", "steps-", "by training step"),
        ("compute", "compute, with initialization (training steps)", "compute-", "by compute"),
    ]
    return _line_figures(curves, "group", kinds, colours)


def depth_figures(depths: pd.DataFrame, colours: Mapping[str, str]) -> dict[str, list[Figure]]:
    """Return for each family of groups its test error by depth.

    Args:
        depths: as from `depth.depth_curves`.
        colours: as from `charts.colours`.
    """
    return _line_figures(depths, "family", [("depth", "depth", "depth-", "by depth")], colours)


def _line_figures(
    frame: pd.DataFrame, column: str, kinds: list[tuple[str, str, str, str]], colours: Mapping[str, str]
) -> dict[str, list[Figure]]:
    groups = [str(group) for group in frame[column].unique()]
    found: dict[str, list[Figure]] = {group: [] for group in groups}
    for x, axis, prefix, suffix in kinds:
        names = file_names(groups, prefix)
        for group in groups:
            own = frame[frame[column] == group]
            drawing = line_panel(own, x, axis, colours)
            if drawing is not None:
                title = f"Test error {suffix}: {group}"
                found[group].append(Figure(names[group], title, _line_alt(title, own, x), drawing))
    return {group: figures for group, figures in found.items() if figures}


def _line_alt(title: str, own: pd.DataFrame, x: str) -> str:
    """Return the title and where every line ends."""
    last = own.dropna(subset=[x]).sort_values(x, kind="stable").groupby("initializer", sort=False).tail(1)
    ends = [
        (row["test_error_median"], f"{row['initializer']} at {x} {row[x]:,.0f}: {_error(row['test_error_median'])}")
        for row in last.to_dict("records")
    ]
    ends.sort()
    texts = [text for _, text in ends]
    more = f"; and {len(texts) - _LONGEST_LIST} more" if len(texts) > _LONGEST_LIST else ""
    return f"{title}. Median over the seeds, the lowest first: {'; '.join(texts[:_LONGEST_LIST])}{more}."


def _quotient_alt(group: str, trials: pd.DataFrame) -> str:
    results = trials[(trials["status"] != "failed") & (trials[GQ] > 0)]
    errors, diverged = results["test_error"].dropna(), int((results["status"] == "diverged").sum())
    saturated = int(results[f"{GQ}.saturated"].fillna(value=False).sum()) if f"{GQ}.saturated" in results else 0
    number = len(set(results["initializer"]))
    words = [
        f"Test error against gradient quotient on {group}: {len(results)} trials of {number} initializers",
        f"gradient quotients from {quotient(results[GQ].min())} to {quotient(results[GQ].max())}",
    ]
    if len(errors):
        words.append(f"test errors from {percent(errors.min())} to {percent(errors.max())}")
    return ", ".join(words) + f"; {diverged} diverged, {saturated} with a saturated quotient."


def _error(value: float) -> str:
    return percent(value) if math.isfinite(value) else "diverged"
