"""The figures of a report, each with its words: what stands above it, and what it shows for who cannot see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.charts import panels
from initbench.reporting.formatting import capitalized, quotient
from initbench.reporting.frame import GQ
from initbench.reporting.line_charts import line_panel
from initbench.reporting.metrics import UNKNOWN
from initbench.reporting.parts import Figure, file_names

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.statistics.wording import Terms

_LONGEST_LIST = 12


def quotient_figures(trials: pd.DataFrame, metrics: Mapping[str, Metric], terms: Terms) -> dict[str, Figure]:
    """Return the outcome against gradient quotient for each workload that has something to draw.

    Args:
        trials: as from `comparison.comparable_trials`.
        metrics: of each workload, as from `comparison.workload_metrics`.
        terms: of the comparison.
    """
    drawings = panels(trials, metrics)
    names = file_names(list(drawings), "quotient-")
    return {
        workload: Figure(
            names[workload],
            f"{capitalized(metrics[workload].title)} against gradient quotient: {workload}",
            _quotient_alt(workload, trials[trials["workload"] == workload], metrics[workload], terms),
            drawing,
        )
        for workload, drawing in drawings.items()
    }


def curve_figures(
    curves: pd.DataFrame, colours: Mapping[str, str], metrics: Mapping[str, Metric]
) -> dict[str, list[Figure]]:
    """Return for each workload its training curves, by step and by compute.

    Args:
        curves: as from `curves.training_curves`.
        colours: as from `charts.colours`.
        metrics: by name, as from `metrics.outcome_metrics`.
    """
    kinds = [
        ("step", "training steps", "steps-", "by training step"),
        ("compute", "compute, with initialization (training steps)", "compute-", "by compute"),
    ]
    return _line_figures(curves, "workload", kinds, colours, metrics)


def depth_figures(
    depths: pd.DataFrame, colours: Mapping[str, str], metrics: Mapping[str, Metric]
) -> dict[str, list[Figure]]:
    """Return for each family of workloads its outcome by depth.

    Args:
        depths: as from `depth.depth_curves`.
        colours: as from `charts.colours`.
        metrics: by name, as from `metrics.outcome_metrics`.
    """
    return _line_figures(depths, "family", [("depth", "depth", "depth-", "by depth")], colours, metrics)


def _line_figures(
    frame: pd.DataFrame,
    column: str,
    kinds: list[tuple[str, str, str, str]],
    colours: Mapping[str, str],
    metrics: Mapping[str, Metric],
) -> dict[str, list[Figure]]:
    workloads = [str(workload) for workload in frame[column].unique()]
    found: dict[str, list[Figure]] = {workload: [] for workload in workloads}
    for x, axis, prefix, suffix in kinds:
        names = file_names(workloads, prefix)
        for workload in workloads:
            own = frame[frame[column] == workload]
            metric = metrics.get(own["metric"].iloc[0], UNKNOWN)
            drawing = line_panel(own, x, axis, colours, metric)
            if drawing is not None:
                title = f"{capitalized(metric.title)} {suffix}: {workload}"
                found[workload].append(Figure(names[workload], title, _line_alt(title, own, x, metric), drawing))
    return {workload: figures for workload, figures in found.items() if figures}


def _line_alt(title: str, own: pd.DataFrame, x: str, metric: Metric) -> str:
    """Return the title and where every line ends."""
    last = own.dropna(subset=[x]).sort_values(x, kind="stable").groupby("treatment", sort=False).tail(1)
    ends = [
        (metric.oriented(row["outcome_median"]), f"{row['treatment']} at {x} {row[x]:,.0f}: {_value(row, metric)}")
        for row in last.to_dict("records")
    ]
    ends.sort()
    texts = [text for _, text in ends]
    best = "lowest" if metric.better == "lower" else "highest"
    more = f"; and {len(texts) - _LONGEST_LIST} more" if len(texts) > _LONGEST_LIST else ""
    return f"{title}. Median over the seeds, the {best} first: {'; '.join(texts[:_LONGEST_LIST])}{more}."


def _quotient_alt(workload: str, trials: pd.DataFrame, metric: Metric, terms: Terms) -> str:
    results = trials[(trials["status"] != "failed") & (trials[GQ] > 0)]
    values, diverged = results["outcome"].dropna(), int((results["status"] == "diverged").sum())
    saturated = int(results[f"{GQ}.saturated"].fillna(value=False).sum()) if f"{GQ}.saturated" in results else 0
    what = f"{len(results)} trials of {len(set(results['treatment']))} {terms.treatment}s"
    words = [
        f"{capitalized(metric.title)} against gradient quotient on {workload}: {what}",
        f"gradient quotients from {quotient(results[GQ].min())} to {quotient(results[GQ].max())}",
    ]
    if len(values):
        words.append(f"{metric.plural} from {metric.text(values.min())} to {metric.text(values.max())}")
    return ", ".join(words) + f"; {diverged} diverged, {saturated} with a saturated quotient."


def _value(row: Mapping[Hashable, Any], metric: Metric) -> str:
    value = row["outcome_median"]
    return metric.text(value) if math.isfinite(value) else "diverged"
