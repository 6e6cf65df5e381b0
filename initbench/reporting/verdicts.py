"""What a comparison says, in sentences that state facts and no more than the data allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from initbench.reporting.comparison import MINIMUM_SEEDS
from initbench.reporting.correlation import MINIMUM_INITIALIZERS
from initbench.reporting.formatting import percent

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import pandas as pd


def verdicts(table: pd.DataFrame) -> list[str]:
    """Return sentences about one group: first who is best, then who diverged and whose quotient is saturated.

    Args:
        table: the group's rows of `comparison.compare`.
    """
    rows = table.to_dict("records")
    ranked = [row for row in rows if not math.isnan(row["test_error_median"])]
    trained = [row for row in ranked if math.isfinite(row["test_error_median"])]
    sentences = [_best(trained, len(ranked))] if ranked else ["No trial has a result."]
    sentences += [
        f"{row['initializer']}: {row['diverged']} of {_trials(row['seeds'])} diverged."
        for row in rows
        if row["diverged"]
    ]
    saturated = [row["initializer"] for row in rows if row["gradient_quotient_saturated"]]
    if saturated:
        sentences.append(
            f"GQ is saturated for {_and(saturated)}: the gradient has vanished, GQ says nothing of curvature."
        )
    return sentences


def prediction(correlation: Mapping[str, Any]) -> str:
    """Return a sentence on whether the gradient quotient predicts the test error within one group.

    Args:
        correlation: a row of `correlation.correlate`.
    """
    n, left_out = correlation["n"], correlation["saturated"]
    left = f" ({left_out} left out, GQ saturated)" if left_out else ""
    if not correlation["remark"]:
        return f"Spearman’s ρ = {correlation['rho']:.2f} over n = {n} initializers{left}."
    if n < MINIMUM_INITIALIZERS:
        return (
            f"Not enough evidence: {n} initializer{'s' if n != 1 else ''} with an outcome and a GQ that is not "
            f"saturated{left}; at least {MINIMUM_INITIALIZERS} are needed."
        )
    return f"Not enough evidence: {correlation['remark']}{left}."


def _best(trained: list[dict[Hashable, Any]], compared: int) -> str:
    if not trained:
        return "No initializer has a finite median test error: at least half of the trials of each have diverged."
    lowest = trained[0]["test_error_median"]
    best = [row for row in trained if row["test_error_median"] == lowest]
    names = _and([row["initializer"] for row in best])
    if compared == 1:
        return f"{names}: median test error {percent(lowest)}; there is nothing to compare it with."
    if len(best) > 1:
        return f"{names} share the lowest median test error, {percent(lowest)}."
    text = f"{names} has the lowest median test error, {percent(lowest)}"
    if len(trained) == 1:
        return f"{text}; of each of the others, at least half of the trials diverged."
    first, second = trained[:2]
    text += f"; next is {second['initializer']}, {percent(second['test_error_median'])}"
    if any(math.isnan(row["test_error_interval"]) for row in (first, second)):
        why = "a trial has diverged" if first["diverged"] or second["diverged"] else f"fewer than {MINIMUM_SEEDS} seeds"
        return f"{text} (no intervals to compare: {why})."
    distance = abs(first["test_error_mean"] - second["test_error_mean"])
    overlap = distance <= first["test_error_interval"] + second["test_error_interval"]
    return f"{text}; the 95 % intervals of their means {'overlap' if overlap else 'do not overlap'}."


def _trials(count: int) -> str:
    return f"{count} trial{'s' if count != 1 else ''}"


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
