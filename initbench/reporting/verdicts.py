"""What the comparison on one workload says, in sentences that state facts and no more than the data allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.formatting import counted, listed
from initbench.reporting.statistics.comparison_verdicts import workload_verdict
from initbench.reporting.statistics.paired import compare_paired

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd

    from initbench.metric import Metric
    from initbench.reporting.statistics.wording import Terms


def verdicts(table: pd.DataFrame, trials: pd.DataFrame, metric: Metric, terms: Terms) -> list[str]:
    """Return sentences about one workload: first who is best, then who diverged and whose quotient is saturated.

    The best is compared with the next by their paired difference over seeds. Which two these are was seen in the same
    trials, so the interval is simultaneous over all pairs of treatments.

    Args:
        table: the workload's rows of `comparison.compare`.
        trials: the workload's, as from `comparison.comparable_trials`.
        metric: of the workload.
        terms: of the comparison.
    """
    rows = table.to_dict("records")
    ranked = [row for row in rows if not math.isnan(row["outcome_median"])]
    trained = [row for row in ranked if math.isfinite(row["outcome_median"])]
    nothing = "No trial has a result."
    if not ranked and table["seeds"].sum():
        nothing = "Nothing was trained here: the trials were measured at initialization alone."
    sentences = [_best(trained, len(ranked), trials, metric, terms)] if ranked else [nothing]
    sentences += [
        f"{row['treatment']}: {row['diverged']} of {counted(row['seeds'], 'trial')} diverged."
        for row in rows
        if row["diverged"]
    ]
    saturated = [row["treatment"] for row in rows if row["gradient_quotient_saturated"]]
    if saturated:
        sentences.append(
            f"GQ is saturated for {listed(saturated)}: the gradient has vanished, GQ says nothing of curvature."
        )
    return sentences


def _best(trained: list[dict[Hashable, Any]], compared: int, trials: pd.DataFrame, metric: Metric, terms: Terms) -> str:
    if not trained:
        return (
            f"No {terms.treatment} has a finite median {metric.title}: at least half of the trials of each have "
            "diverged."
        )
    first = trained[0]["outcome_median"]
    best = [row for row in trained if row["outcome_median"] == first]
    most = "lowest" if metric.better == "lower" else "highest"
    names = listed([row["treatment"] for row in best])
    if compared == 1:
        return f"{names}: median {metric.title} {metric.text(first)}; there is nothing to compare it with."
    if len(best) > 1:
        return f"{names} share the {most} median {metric.title}, {metric.text(first)}."
    text = f"{names} has the {most} median {metric.title}, {metric.text(first)}"
    if len(trained) == 1:
        return f"{text}; of each of the others, at least half of the trials diverged."
    leader, second = trained[:2]
    pairs = compared * (compared - 1) // 2
    labels = leader["treatment"], second["treatment"]
    comparison = compare_paired(trials, *labels, comparisons=pairs)
    difference = workload_verdict(*labels, comparison.on(str(trials["workload"].iloc[0])), metric, pairs)
    return f"{text}; next is {second['treatment']}, {metric.text(second['outcome_median'])}. {difference}"
