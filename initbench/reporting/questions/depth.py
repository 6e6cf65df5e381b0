"""How does depth change the outcome?"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from initbench.comparing.formatting import capitalized
from initbench.comparing.names import label_of, short_names
from initbench.reporting.answer import Answer
from initbench.reporting.questions.line_figures import Kind, drawn, line_figures
from initbench.reporting.results import Results, as_results, once
from initbench.reporting.sentence import Sentence, named, say
from initbench.reporting.tables import table_of
from initbench.statistics.cells import all_train
from initbench.statistics.depth import DEPTH, depth_curves, reached_depths

_MOST_SENTENCES = 3  # on as many families
_KIND = Kind("depth", "depth", "depth-", "by depth")


class Depth(NamedTuple):
    """The outcome at every depth (`depth.depth_curves`), and how deep each trains (`depth.reached_depths`)."""

    depths: pd.DataFrame
    reached: pd.DataFrame


def depth_profile(results: Results | str | Path, *, family: str = "") -> Answer | None:
    """Return how depth changes the outcome; None if no two workloads differ in depth alone.

    Args:
        results: as from `read_results`, or a suite's folder.
        family: one alone, such as ``plain``, by its short or whole name; all by default.

    Raises:
        InitbenchError: the folder has no trial records that can be read, or there is no such family.
    """
    results = as_results(results)
    facts, outcome = _facts(results), results.terms.outcome
    if not len(facts.depths):
        return None
    if family:
        known = short_names(results.labels, [], facts.depths["family"]).workloads
        label = label_of(family, known, "family of networks")
        facts = Depth(*(frame[frame["family"] == label] for frame in facts))
    names = short_names(results.labels, [], list(dict.fromkeys(map(str, facts.depths["family"]))))
    families = {label: names.workload(label) for label in names.workloads}
    show = "family treatment depth seeds diverged outcome_median outcome_smallest outcome_largest"
    table = table_of(results, "depths", f"{capitalized(outcome)} by depth", facts.depths, show)
    table = replace(table, names=replace(results.names, workloads=names.workloads))
    labels, left = drawn(facts.depths, "family", "depths.csv")
    titles = {label: families[label] for label in labels}
    figures = list(line_figures(facts.depths, "family", titles, _KIND, results).values())
    question = f"How does depth change the {outcome}?"
    return Answer("depth", question, _sentences(facts.reached, families, results), [table], figures, left, facts)


@once
def _facts(results: Results) -> Depth:
    families = {workload: results.labels.family(workload, DEPTH) for workload in results.metric_of}
    depths = depth_curves(results.trials, results.metric_of, families)
    if not len(depths):
        return Depth(depths, depths)
    depth_of = results.trials.drop_duplicates("workload").set_index("workload")[DEPTH]
    trained = results.cells[all_train(results.cells)]  # as the map counts them
    cells = {
        (families[row["workload"]], row["treatment"], depth_of[row["workload"]]) for row in trained.to_dict("records")
    }
    return Depth(depths, reached_depths(depths, cells, results.metrics))


def _sentences(reached: pd.DataFrame, families: Mapping[str, str], results: Results) -> list[Sentence]:
    """Return how deep treatments train on families with failures, then where the outcome worsens most."""
    failing = reached.groupby("family", sort=False).filter(lambda rows: rows["first_failure"].notna().any())
    reaches = [_reach(families[str(family)], rows, results) for family, rows in failing.groupby("family", sort=False)]
    worsening = reached[reached["worsening"] > 0]
    steepest = worsening.loc[worsening.groupby("metric", sort=False)["worsening"].idxmax()]
    steps = [_steepest(row, families, results) for row in steepest.to_dict("records")]
    none = say("The median {outcome} never worsens from one depth to the next.", outcome=results.terms.outcome)
    return [*reaches[:_MOST_SENTENCES], *steps] or [none]


def _reach(family: str, rows: pd.DataFrame, results: Results) -> Sentence:
    """Return who trains at every depth, and who fails first."""
    treatment, failing = results.terms.treatment, rows["first_failure"].notna()
    deepest = rows["deepest_trained"].max()
    if math.isnan(deepest):
        return say(f"On {{family!b}}, no {treatment} trains at the smallest depth.", family=family)
    row = rows[failing].sort_values("deepest_trained", na_position="first", kind="stable").iloc[0]
    least, reached = results.names.treatment(row["treatment"]), row["deepest_trained"]
    ran = max(deepest, rows["first_failure"].max())
    deep = ~failing & (rows["deepest_trained"] == ran)  # others did not run so deep
    if everywhere := [results.names.treatment(label) for label in rows.loc[deep, "treatment"]]:
        verb = "train" if len(everywhere) > 1 else "trains"
        only = "at none" if math.isnan(reached) else f"only to {reached:g}"
        text = f"On {{family!b}}, {{everywhere!b}} {verb} at every depth to {deepest:g}, {{least!b}} {only}."
        return say(text, family=family, everywhere=named(everywhere), least=least)
    text = f"On {{family!b}}, no {treatment} trains at every depth: the best reaches {deepest:g}"
    if reached != deepest:
        text += ", but {least!b} " + (
            "fails even at the smallest" if math.isnan(reached) else f"reaches only {reached:g}"
        )
    return say(f"{text}.", family=family, least=least)


def _steepest(row: Mapping[Hashable, Any], families: Mapping[str, str], results: Results) -> Sentence:
    metric = results.metrics[row["metric"]]
    start, end = (
        metric.beside_title.text(value) if math.isfinite(value) else "divergence"
        for value in (row["from_outcome"], row["to_outcome"])
    )
    return say(
        "The {outcome} worsens most with {treatment!b} on {family!b}: from {start} at depth {from_depth} to {end} at "
        "depth {to_depth}.",
        outcome=metric.title,
        treatment=results.names.treatment(row["treatment"]),
        family=families[row["family"]],
        start=start,
        end=end,
        from_depth=f"{row['from_depth']:g}",
        to_depth=f"{row['to_depth']:g}",
    )
