"""What a comparison says, in sentences that state facts and no more than the data allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.formatting import counted, listed, percent
from initbench.reporting.statistics.comparison_verdicts import workload_verdict
from initbench.reporting.statistics.paired import compare_paired

if TYPE_CHECKING:
    from collections.abc import Hashable

    import pandas as pd


def verdicts(table: pd.DataFrame, trials: pd.DataFrame) -> list[str]:
    """Return sentences about one group: first who is best, then who diverged and whose quotient is saturated.

    The best is compared with the next by their paired difference over seeds. Which two these are was seen in the same
    trials, so the interval is simultaneous over all pairs of initializers.

    Args:
        table: the group's rows of `comparison.compare`.
        trials: the group's, as from `comparison.comparable_trials`.
    """
    rows = table.to_dict("records")
    ranked = [row for row in rows if not math.isnan(row["test_error_median"])]
    trained = [row for row in ranked if math.isfinite(row["test_error_median"])]
    sentences = [_best(trained, len(ranked), trials)] if ranked else ["No trial has a result."]
    sentences += [
        f"{row['initializer']}: {row['diverged']} of {counted(row['seeds'], 'trial')} diverged."
        for row in rows
        if row["diverged"]
    ]
    saturated = [row["initializer"] for row in rows if row["gradient_quotient_saturated"]]
    if saturated:
        sentences.append(
            f"GQ is saturated for {listed(saturated)}: the gradient has vanished, GQ says nothing of curvature."
        )
    return sentences


def _best(trained: list[dict[Hashable, Any]], compared: int, trials: pd.DataFrame) -> str:
    if not trained:
        return "No initializer has a finite median test error: at least half of the trials of each have diverged."
    lowest = trained[0]["test_error_median"]
    best = [row for row in trained if row["test_error_median"] == lowest]
    names = listed([row["initializer"] for row in best])
    if compared == 1:
        return f"{names}: median test error {percent(lowest)}; there is nothing to compare it with."
    if len(best) > 1:
        return f"{names} share the lowest median test error, {percent(lowest)}."
    text = f"{names} has the lowest median test error, {percent(lowest)}"
    if len(trained) == 1:
        return f"{text}; of each of the others, at least half of the trials diverged."
    first, second = trained[:2]
    pairs = compared * (compared - 1) // 2
    labels = first["initializer"], second["initializer"]
    comparison = compare_paired(trials, *labels, comparisons=pairs)
    difference = workload_verdict(*labels, comparison.on(str(trials["group"].iloc[0])), pairs)
    return f"{text}; next is {second['initializer']}, {percent(second['test_error_median'])}. {difference}"
