"""The figures of training and of depth: one panel for each workload or family."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import line_panel
from initbench.reporting.file_names import file_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.metric import Metric
    from initbench.reporting.results import Results

MOST_DRAWN = 12
"""Workloads of which there is a figure of one kind: more are no answer. The tables have all."""
TRAIN_NOTE = (
    "On training data, each value is a mean over the epoch so far, before each update and in training mode, so that it "
    "lags behind while training improves quickly."
)
_MOST_NAMED = 12
_SPREADS = ("median", "smallest", "largest")


class Kind(NamedTuple):
    """A kind of figure.

    Attributes:
        x: the column of its horizontal axis.
        axis: that axis' title.
        prefix: of the figures' names.
        suffix: of their titles.
    """

    x: str
    axis: str
    prefix: str
    suffix: str


STEPS = Kind("step", "training steps", "steps-", "by training step")
COMPUTE = Kind("compute", "compute, with initialization (training steps)", "compute-", "by compute")
DEPTH = Kind("depth", "depth", "depth-", "by depth")


def training_figures(curves: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the training curves of each workload by step, on training data too, and by compute.

    Args:
        curves: as from `curves.training_curves`.
        results: that they are of.

    Returns:
        The figures, those of one workload beside each other, and a sentence on those that there are not.
    """
    names, left = drawn(curves, "workload", "curves.csv")
    both = both_splits(curves, results)
    found: dict[str, list[Figure]] = {}
    for kind, frame in ((STEPS, both), (COMPUTE, curves)):
        titles = {label: results.names.workload(label) for label in names}
        for label, figure in _panels(frame, "workload", titles, kind, results).items():
            found.setdefault(label, []).append(figure)
    return [figure for label in names for figure in found.get(label, [])], left


def depth_figures(
    depths: pd.DataFrame, families: Mapping[str, str], results: Results
) -> tuple[list[Figure], list[str]]:
    """Return the outcome by depth of each family.

    Args:
        depths: as from `depth.depth_curves`.
        families: label → display text.
        results: that they are of.

    Returns:
        The figures, and a sentence on those that there are not.
    """
    names, left = drawn(depths, "family", "depths.csv")
    shown = {label: families[label] for label in names}
    return list(_panels(depths, "family", shown, DEPTH, results).values()), left


def both_splits(curves: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return training curves with a row for each split, told apart by ``split``, where the training split is known."""
    train = curves[curves["train_median"].notna()]
    if not len(train):
        return curves
    of = {name: metric.split or "test" for name, metric in results.metrics.items()}
    train = train.assign(split="train", **{f"outcome_{end}": train[f"train_{end}"] for end in _SPREADS})
    return pd.concat([curves.assign(split=curves["metric"].map(of)), train], ignore_index=True)


def in_words(frame: pd.DataFrame, results: Results) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a frame that names treatments as the page does, and their colours by these names."""
    names = results.names.treatments
    colours = {names[label].text: colour for label, colour in results.colours.items()}
    return frame.assign(treatment=[names[label].text for label in frame["treatment"]]), colours


def drawn(frame: pd.DataFrame, column: str, file: str) -> tuple[list[str], list[str]]:
    """Return the labels of which there are figures, and a sentence where these are not all.

    Args:
        frame: in whose order they are.
        column: of the labels.
        file: that has all of them.
    """
    labels = list(dict.fromkeys(map(str, frame[column])))
    if len(labels) <= MOST_DRAWN:
        return labels, []
    return labels[:MOST_DRAWN], [f"Of {len(labels)}, the first {MOST_DRAWN} are drawn; {file} has all."]


def _panels(
    frame: pd.DataFrame, column: str, titles: Mapping[str, str], kind: Kind, results: Results
) -> dict[str, Figure]:
    shown, colours = in_words(frame[frame[column].isin(list(titles))], results)
    names, found = file_names(list(titles), kind.prefix), {}
    for label, own in shown.groupby(column, sort=False):
        metric = results.metrics[own["metric"].iloc[0]]
        panel = line_panel(own, kind.x, kind.axis, colours, metric)
        if panel is not None:
            title = f"{capitalized(metric.title)} {kind.suffix}: {titles[str(label)]}"
            note = TRAIN_NOTE if "split" in own else ""
            found[str(label)] = Figure(
                names[str(label)], title, _alt(title, own, kind.x, metric), panel, note, subject=titles[str(label)]
            )
    return found


def _alt(title: str, own: pd.DataFrame, x: str, metric: Metric) -> str:
    """Return the title and where every line ends."""
    outcome = own[own["split"] != "train"] if "split" in own else own
    ends = outcome.dropna(subset=[x]).sort_values(x, kind="stable").groupby("treatment", sort=False).tail(1)
    rows = sorted(ends.to_dict("records"), key=lambda row: metric.oriented(row["outcome_median"]))
    shown = metric.beside_title
    texts = [f"{row['treatment']} at {x} {row[x]:,.0f}: {_value(row['outcome_median'], shown)}" for row in rows]
    if "split" in own:
        of = own[own["split"] == "train"].drop_duplicates("treatment", keep="last").set_index("treatment")
        texts = [_with_training(text, row["treatment"], of, shown) for text, row in zip(texts, rows, strict=True)]
    best = "lowest" if metric.better == "lower" else "highest"
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{title}. Median over the seeds, the {best} first: {'; '.join(texts[:_MOST_NAMED])}{more}."


def _with_training(text: str, treatment: str, training: pd.DataFrame, metric: Metric) -> str:
    if treatment not in training.index:
        return text
    return f"{text} ({_value(training.loc[treatment, 'train_median'], metric)} on training data)"


def _value(value: Any, metric: Metric) -> str:
    return metric.text(value) if math.isfinite(value) else "diverged"
