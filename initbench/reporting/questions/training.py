"""How did training go? The outcome by step and by compute, on test and on training data."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.names import label_of
from initbench.metric import Metric
from initbench.reporting.answer import Answer
from initbench.reporting.charts.figure import Figure
from initbench.reporting.questions.line_figures import Kind, drawn, line_figures
from initbench.reporting.results import Results, as_results
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.tables import table_of
from initbench.statistics.curves import best_unfitted, curve_ends, widest_gaps
from initbench.statistics.curves import training_curves as curve_points

_HALF = 0.5  # of the way from chance to the best value: a network that is beyond on training data fits them
_NOTE = (
    "Each value on training data is a mean over the epoch so far, taken before each update and in training mode, so it "
    "lags behind while training improves quickly."
)
_STEPS = Kind("step", "training steps", "steps-", "by training step")
_COMPUTE = Kind("compute", "compute, with initialization (training steps)", "compute-", "by compute")


class Training(NamedTuple):
    """Every point of the curves (`curves.training_curves`), and their last points (`curves.curve_ends`)."""

    curves: pd.DataFrame
    ends: pd.DataFrame


def training_curves(results: Results | str | Path, *, workload: str = "") -> Answer | None:
    """Return how training went; None if nothing was trained, or if every trial failed.

    Args:
        results: as from `read_results`, or a suite's folder.
        workload: one alone, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such workload.
    """
    results = as_results(results)
    curves = curve_points(results.trials, results.records, results.metric_of)
    if workload:
        curves = curves[curves["workload"] == label_of(workload, results.names.workloads, "workload")]
    if not len(curves):
        return None
    facts = Training(curves, curve_ends(curves, results.cells, results.metrics))
    show, note = "workload treatment step seeds diverged outcome_median outcome_smallest outcome_largest", ""
    if curves["train_median"].notna().any():
        show, note = f"{show} train_median", _NOTE
    tables = [
        table_of(results, "curves", "Every point of the training curves", curves, note=note),
        table_of(results, "curve_ends", "Where the training curves end", facts.ends, show, note),
    ]
    figures, remarks = _figures(curves, results)
    sentences = _on_both_splits(facts.ends, results) or [_best_end(facts.ends, results)]
    return Answer("training", "How did training go?", sentences, tables, figures, remarks, facts)


def _on_both_splits(ends: pd.DataFrame, results: Results) -> list[Sentence]:
    """Return where test and training data differ most, and whether what did not train fits its training data."""
    sentences = []
    for row in widest_gaps(ends).to_dict("records"):
        text = (
            "The {quantity} is nowhere worse on {split} data than on training data; the two are closest for "
            "{treatment!b} on {workload!b}: {test} and {train}."
        )
        if row["gap"] > 0:
            text = (
                "The gap is widest for {treatment!b} on {workload!b}: the {quantity} ends at {test} on {split} data "
                "and at {train} on training data."
            )
        sentences.append(say(text, **_fields(row, results)))
    for row in best_unfitted(ends, results.metrics).to_dict("records"):
        text = (
            "Networks that did not train did not fit their training data either: the best {quantity} there is {train}."
        )
        if _fits(row["workload"], results.metrics[row["metric"]], row["train_median"], results):
            text = (
                "{treatment!b} on {workload!b} fits its training data ({quantity} {train}) but stays at chance on "
                "{split} data ({test})."
            )
        sentences.append(say(text, **_fields(row, results)))
    return sentences


def _fields(row: Mapping[Hashable, Any], results: Results) -> dict[str, Any]:
    metric, names = results.metrics[row["metric"]], results.names
    return {
        "treatment": names.treatment(row["treatment"]),
        "workload": names.workload(row["workload"]),
        "quantity": metric.quantity,
        "split": metric.split,
        "test": metric.beside_title.text(row["outcome_median"]),
        "train": metric.beside_title.text(row["train_median"]),
    }


def _fits(workload: str, metric: Metric, train: float, results: Results) -> bool:
    """Return whether a value on training data is more than half of the way from chance to the best value."""
    trials = results.trials_on[workload]
    chance, best = (trials[column].dropna() for column in ("oriented_chance", "oriented_best"))
    if not len(chance) or not len(best):
        return False
    return bool(metric.oriented(train) < chance.iloc[0] - _HALF * (chance.iloc[0] - best.iloc[0]))


def _best_end(ends: pd.DataFrame, results: Results) -> Sentence:
    """Return who ends best on the first workload where something trained; nothing is known of training data."""
    trained = ends[(ends["state"] == "trained") & ends["outcome_median"].abs().lt(math.inf)]
    if not len(trained):
        if (ends["state"] == "diverged").all():
            return say("By the end of every curve, at least half of its seeds have diverged.")
        return say("No curve ends better than chance.")
    first = trained[trained["workload"] == trained["workload"].iloc[0]]
    metric = results.metrics[first["metric"].iloc[0]]
    oriented = first["outcome_median"] * metric.oriented(1.0)
    row, best = first.iloc[int(oriented.argmin())], first[oriented == oriented.min()]["treatment"]
    verb, step = ("end", "") if len(best) > 1 else ("ends", f" at step {row['step']:,}")
    return say(
        f"On {{workload!b}}, {{best!b}} {verb} with the best {{title}}: {{value}}{step}.",
        workload=results.names.workload(row["workload"]),
        best=named([results.names.treatment(label) for label in best]),
        title=metric.title,
        value=metric.beside_title.text(row["outcome_median"]),
    )


def _figures(curves: pd.DataFrame, results: Results) -> tuple[list[Figure], list[str]]:
    """Return the curves of each workload by step and by compute, and a sentence if some workloads are not drawn."""
    labels, left = drawn(curves, "workload", "curves.csv")
    titles = {label: results.names.workload(label) for label in labels}
    both = _both_splits(curves, results)
    by_step = line_figures(both, "workload", titles, _STEPS, results)
    by_compute = line_figures(curves, "workload", titles, _COMPUTE, results, both)
    return [kind[label] for label in labels for kind in (by_step, by_compute) if label in kind], left


def _both_splits(curves: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return the curves with a row for each split, marked by ``split``, if the training split is known."""
    train = curves[curves["train_median"].notna()]
    if not len(train):
        return curves
    splits = {name: metric.split or "test" for name, metric in results.metrics.items()}
    ends = {f"outcome_{end}": train[f"train_{end}"] for end in ("median", "smallest", "largest")}
    return pd.concat(
        [curves.assign(split=curves["metric"].map(splits)), train.assign(split="train", **ends)], ignore_index=True
    )
