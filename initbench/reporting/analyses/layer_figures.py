"""The figures of what a network looks like at initialization, layer by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from initbench.comparing.formatting import capitalized
from initbench.reporting.analyses.curve_figures import drawn, in_words
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.layers import layer_panel
from initbench.reporting.charts.values import value_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.measurements import level, of_weights
from initbench.reporting.words.initialization import plain_number, short_quantities

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from initbench.reporting.charts.panel import Specification
    from initbench.reporting.results import Results

AXIS = "weight, from the input to the output"
WEIGHTS_NOTE = "Weights alone; the table has every parameter."
_FILES = {"per_layer": "probe_layers.csv", "curve": "probe_curves.csv"}
_MOST_NAMED = 12


def layer_figures(profiles: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the values by layer, and curves by their places, of every probe on each workload.

    Args:
        profiles: as from `measurements.profiles`.
        results: that they are of.

    Returns:
        The figures, and a sentence on those that there are not.
    """
    shown, colours = in_words(profiles, results)
    quantities = short_quantities(map(str, results.profiles["probe"]))
    figures: list[Figure] = []
    left: list[str] = []
    for (probe, form), own in shown.groupby(["probe", "form"], sort=False):
        labels, more = drawn(own, "workload", _FILES[str(form)])
        left += more
        names, what = file_names(labels, f"{probe}-"), quantities[str(probe)]
        for label in labels:
            part = own[own["workload"] == label]
            panel, over, note = _panel(part, what, colours)
            if panel is None:
                left.append(
                    f"{capitalized(what)} on {results.names.workload(label)} has no finite value, so nothing is drawn."
                )
                continue
            where = results.names.workload(label)
            title = f"{capitalized(what)} by {over}: {where}"
            figures.append(Figure(names[label], title, f"{title}. {_alt(part)}", panel, note, subject=where))
    return figures, list(dict.fromkeys(left))


def weights(frame: pd.DataFrame, within: Sequence[str]) -> pd.DataFrame:
    """Return the rows of weights where layers' names tell them, their places counted anew, from 0.

    Args:
        frame: with ``layer`` and ``place``.
        within: the columns within which places are those of one model.
    """
    own = of_weights(frame)
    return own.assign(place=own.groupby(list(within), sort=False)["place"].rank(method="dense") - 1)


def _panel(part: pd.DataFrame, what: str, colours: dict[str, str]) -> tuple[Specification | None, str, str]:
    """Return a workload's panel, what its horizontal axis is, and a note on what it leaves out."""
    if part["form"].iloc[0] == "per_layer":
        own = weights(part, ["workload"])
        note = WEIGHTS_NOTE if len(own) < len(part) else ""
        axis = AXIS if own["layer"].str.endswith("weight").all() else "layer, from the input to the output"
        return layer_panel(own, what, colours, axis=axis), "layer", note
    over, unit = part["over"].iloc[0] or "place", part["unit"].iloc[0]
    return value_panel(part, "place", over, f"{what} ({unit})" if unit else what, colours), over, ""


def _alt(part: pd.DataFrame) -> str:
    """Return between which values the line of each treatment lies, the largest first."""
    levels = {str(treatment): level(own) for treatment, own in part.groupby("treatment", sort=False)}
    known = sorted((name for name in levels if levels[name].layers), key=lambda name: -levels[name].typical)
    texts = [
        f"{name} from {plain_number(levels[name].smallest)} to {plain_number(levels[name].largest)}" for name in known
    ]
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"Medians over the seeds, the largest first: {'; '.join(texts[:_MOST_NAMED])}{more}."
