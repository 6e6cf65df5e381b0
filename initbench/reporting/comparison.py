"""Which initializer is better: one row per initializer within each group of trials that differ in nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from initbench.reporting.frame import GQ, natural
from initbench.reporting.statistics.intervals import mean_estimate


def comparable_trials(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that are compared, each under an initializer's label that names one cell of its group.

    Search trials are left out. A trial that was run twice with other probes has the same outcome and is counted once.
    Where several cells of a group have the same label (a rule was edited between two runs), what tells them apart is
    added in braces, so that trials that are no replicates are never pooled: ``kaiming {clip_norm=0.5}``.

    Args:
        frame: as from `load_results`.
    """
    trials = frame[frame["phase"] == "final"]
    known = trials.notna().sum(axis="columns").sort_values(kind="stable").index
    trials = trials.loc[known].drop_duplicates(["cell", "seed"], keep="last").sort_index().copy()
    for (_, label), same in trials.groupby(["group", "initializer"], sort=False):
        if len(set(same["cell"])) > 1:
            trials.loc[same.index, "initializer"] = [f"{label} {{{text}}}" for text in _differences(same)]
    return trials


def compare(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the comparison: per group, the initializers from best to worst.

    With the test errors e₁ … eₙ of the n trials that finished or diverged (failed ones are counted apart):

    - ``test_error_median``: the median, a diverged trial counting as +∞; ``rank`` is by it, equal ones share the least;
    - ``test_error_mean``: ē = Σ eᵢ / n, missing where a trial has diverged;
    - ``test_error_interval``: the half-width t₀.₉₇₅,ₙ₋₁ · s / √n of Student's 95 % interval around ē, with
      s² = Σ (eᵢ - ē)² / (n - 1); missing below 3 seeds, where all are equal, and where a trial has diverged;
    - ``first_epoch_accuracy_mean``: the mean over the n trials, missing where one has none;
    - ``gradient_quotient_median``: over the n trials; ``gradient_quotient_saturated``: in how many of them it is;
    - ``initialization_seconds_mean``: the mean over the n trials;
    - ``seeds`` (n), ``diverged``, ``failed``: counts; ``parameters``: of the model.

    Args:
        trials: as from `comparable_trials`.
    """
    needed = [GQ, f"{GQ}.saturated", "initialization_seconds"]
    trials = trials.reindex(columns=[*trials.columns, *(column for column in needed if column not in trials)])
    rows = [
        {"group": group, "initializer": initializer, "rank": np.nan, **_summary(cell)}
        for (group, initializer), cell in trials.groupby(["group", "initializer"])
    ]
    rows.sort(
        key=lambda row: (natural(row["group"]), _missing_last(row["test_error_median"]), natural(row["initializer"]))
    )
    table = pd.DataFrame(rows, columns=["group", "initializer", "rank", *_summary(trials.head(0))])
    table["rank"] = table.groupby("group")["test_error_median"].rank(method="min")
    return table


def _summary(cell: pd.DataFrame) -> dict[str, Any]:
    results = cell[cell["status"] != "failed"]
    diverged = int((results["status"] == "diverged").sum())
    errors = results["test_error"].to_numpy(dtype=float)
    outcomes = np.where(results["status"] == "diverged", np.inf, errors)
    complete = len(errors) > 0 and diverged == 0
    parameters = results["parameters"].dropna()
    return {
        "seeds": len(results),
        "diverged": diverged,
        "failed": len(cell) - len(results),
        "test_error_median": float(np.median(outcomes)) if len(outcomes) else np.nan,
        "test_error_mean": float(errors.mean()) if complete else np.nan,
        "test_error_interval": mean_estimate(errors).half_width if complete else np.nan,
        "first_epoch_accuracy_mean": results["first_epoch_accuracy"].mean(skipna=False),
        "gradient_quotient_median": _median_quotient(results),
        "gradient_quotient_saturated": int(results[f"{GQ}.saturated"].astype("boolean").sum()),
        "initialization_seconds_mean": results["initialization_seconds"].mean(skipna=False),
        "parameters": parameters.iloc[0] if len(parameters) else np.nan,
    }


def _median_quotient(results: pd.DataFrame) -> float:
    """Return the median GQ: a value that was not finite (its entry says why) reads as +∞, NaN where none was taken."""
    if GQ not in results or results[f"{GQ}.saturated"].isna().any() or not len(results):
        return float("nan")
    return float(np.median(results[GQ].astype(float).fillna(np.inf)))


def _missing_last(value: float) -> tuple[bool, float]:
    return (True, 0.0) if np.isnan(value) else (False, value)


def _differences(trials: pd.DataFrame) -> list[str]:
    """Return for each trial the arguments that tell its cell from the others, with its hash if they do not."""
    arguments = [c for c in trials.columns if c.startswith(("architecture.", "initializer.", "recipe."))]
    varied = [c for c in arguments if len(set(trials[c].astype(str))) > 1]
    texts = [
        ", ".join(f"{column.partition('.')[2]}={value}" for column, value in zip(varied, values, strict=True))
        for values in trials[varied].astype(str).to_numpy().tolist()
    ]
    # Arguments that do not tell all cells apart (another version of a component) need the hash as well.
    pairs = set(zip(texts, trials["cell"], strict=True))
    ambiguous = len(pairs) > len(set(texts))
    return [
        f"{text or 'cell'} {cell[:6]}" if ambiguous else text for text, cell in zip(texts, trials["cell"], strict=True)
    ]
