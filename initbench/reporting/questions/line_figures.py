"""Which workloads the figures of a question show, and the outcome as lines: one figure per workload or family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.metric import Metric
from initbench.reporting.charts.figure import Figure
from initbench.reporting.charts.lines import line_panel
from initbench.reporting.file_names import file_names
from initbench.reporting.results import Results

MOST_DRAWN = 12  # figures of one kind: more would not answer the question; the tables list them all
_MOST_NAMED = 12


class Kind(NamedTuple):
    """A kind of figure.

    Attributes:
        x: the column of its horizontal axis.
        axis: the title of that axis.
        prefix: of the figures' names.
        suffix: of their titles.
        note: below their titles.
        log: whether that axis is logarithmic.
    """

    x: str
    axis: str
    prefix: str
    suffix: str
    note: str = ""
    log: bool = False


def drawn(frame: pd.DataFrame, column: str, file: str) -> tuple[list[str], list[str]]:
    """Return the labels that have figures, and a sentence if these are not all.

    Args:
        frame: in its order.
        column: of the labels.
        file: that has all of them.
    """
    labels = list(dict.fromkeys(map(str, frame[column])))
    if len(labels) <= MOST_DRAWN:
        return labels, []
    return labels[:MOST_DRAWN], [f"Of {len(labels)}, the first {MOST_DRAWN} are drawn; {file} has all."]


def in_words(frame: pd.DataFrame, results: Results) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a frame that names treatments as the page does, and their colours by these names."""
    names = results.names.treatments
    colours = {names[label].spelled_out: colour for label, colour in results.colours.items()}
    return frame.assign(treatment=[names[label].spelled_out for label in frame["treatment"]]), colours


def line_figures(
    frame: pd.DataFrame,
    column: str,
    titles: Mapping[str, str],
    kind: Kind,
    results: Results,
    beside: pd.DataFrame | None = None,
) -> dict[str, Figure]:
    """Return the figures that can be drawn, by label.

    Args:
        frame: as `lines.line_panel` takes it, for all labels.
        column: of the labels.
        titles: label → display text, for the labels to draw.
        kind: of figure; its horizontal axis can be logarithmic only over depth, whatever `log` says.
        results: of the report.
        beside: the rows of all figures that share the vertical axis; by default all rows of `frame`.
    """
    beside = frame if beside is None else beside
    beside = beside[beside[column].isin(list(titles))]
    shown, colours = in_words(frame[frame[column].isin(list(titles))], results)
    names, figures = file_names(list(titles), kind.prefix), {}
    for label, rows in shown.groupby(column, sort=False):
        metric, name = results.metrics[rows["metric"].iloc[0]], titles[str(label)]
        same = beside[beside["metric"] == metric.name]
        if panel := line_panel(rows, kind.x, kind.axis, colours, metric, beside=same):
            title = f"{capitalized(metric.title)} {kind.suffix}: {name}"
            alt = _alt(title, rows, kind.x, metric)
            figures[str(label)] = Figure(names[str(label)], title, alt, panel, kind.note, subject=name)
    return figures


def _alt(title: str, rows: pd.DataFrame, x: str, metric: Metric) -> str:
    """Return the title, and where every line ends."""
    is_train = rows["split"] == "train" if "split" in rows else pd.Series(False, index=rows.index)
    training = rows[is_train].drop_duplicates("treatment", keep="last").set_index("treatment")
    ends = rows[~is_train].dropna(subset=[x]).sort_values(x, kind="stable").groupby("treatment", sort=False).tail(1)
    texts, shown = [], metric.beside_title
    for row in sorted(ends.to_dict("records"), key=lambda row: metric.oriented(row["outcome_median"])):
        text = f"{row['treatment']} at {x} {row[x]:,.0f}: {_value(row['outcome_median'], shown)}"
        if row["treatment"] in training.index:
            text += f" ({_value(training.loc[row['treatment'], 'train_median'], shown)} on training data)"
        texts.append(text)
    best = "lowest" if metric.better == "lower" else "highest"
    more = f"; and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return f"{title}. Median over the seeds, the {best} first: {'; '.join(texts[:_MOST_NAMED])}{more}."


def _value(value: Any, metric: Metric) -> str:
    return metric.text(value) if math.isfinite(value) else "diverged"
