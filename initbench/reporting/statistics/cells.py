"""From trials to cells, the unit of analysis, and from cells to tables of workloads × treatments."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from initbench.reporting.frame import natural

if TYPE_CHECKING:
    from collections.abc import Sequence


def trial_outcomes(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a result, with their oriented outcome as `outcome`: lower is better, +∞ diverged.

    Failed trials are left out, of whose outcome nothing is known, and those that were not trained.

    Args:
        trials: as from `comparison.comparable_trials`.
    """
    results = trials[trials["oriented"].notna()]
    return results.assign(outcome=results["oriented"].astype(float))


def cells(trials: pd.DataFrame, measured: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per workload and treatment.

    Columns: ``workload``, ``treatment``; ``outcome``, the median oriented outcome over seeds, a diverged one counting
    as +∞; ``seeds``, ``diverged``: counts; then for each column of `measured` its median over seeds, missing where
    a seed has none, and ``<column>.saturated``, in how many seeds it is saturated. A value of a probe that can saturate
    which was taken but was not finite reads as +∞, as in `comparison.compare`.

    Args:
        trials: as from `comparison.comparable_trials`.
        measured: columns of the trials, such as ``probe.gradient_norm``; one that they lack is missing everywhere.
    """
    outcomes = trial_outcomes(trials)
    rows = []
    for (workload, treatment), own in outcomes.groupby(["workload", "treatment"], sort=False):
        row = {"workload": workload, "treatment": treatment, "outcome": float(np.median(own["outcome"]))}
        row |= {"seeds": len(own), "diverged": int((own["status"] == "diverged").sum())}
        for column in measured:
            row |= _median(own, column)
        rows.append(row)
    rows.sort(key=lambda row: (natural(str(row["workload"])), natural(str(row["treatment"]))))
    medians = [name for column in measured for name in (column, f"{column}.saturated")]
    found = pd.DataFrame(rows, columns=["workload", "treatment", "outcome", "seeds", "diverged", *medians])
    return found.astype(dict.fromkeys(["outcome", *medians], float))  # also where there is none


def table(cells: pd.DataFrame, column: str = "outcome") -> pd.DataFrame:
    """Return one column of the cells as a table, workloads × treatments, NaN for a cell that is not there."""
    wide = cells.pivot(index="workload", columns="treatment", values=column)  # noqa: PD010  # it refuses duplicates
    return wide.reindex(index=sorted(wide.index, key=natural), columns=sorted(wide.columns, key=natural)).astype(float)


class Complete(NamedTuple):
    """A table without gaps, and what was left out to make it so.

    Attributes:
        table: workloads × treatments, no NaN.
        workloads: names left out.
        treatments: names left out.
    """

    table: pd.DataFrame
    workloads: list[str]
    treatments: list[str]


def complete(table: pd.DataFrame) -> Complete:
    """Return the table without the workloads and treatments that have gaps.

    Tests that rank treatments within each workload need every treatment on every one. The row or column with the
    largest share of gaps goes first (a row where they are equal), until none is left. A Fixup network on which Fixup
    alone runs is thus left out before the treatments that do not run there.
    """
    left = table
    workloads: list[str] = []
    treatments: list[str] = []
    while left.size and left.isna().to_numpy().any():
        rows, columns = left.isna().mean(axis="columns"), left.isna().mean(axis="index")
        if rows.max() >= columns.max():
            workloads.append(str(rows.idxmax()))
            left = left.drop(index=rows.idxmax())
        else:
            treatments.append(str(columns.idxmax()))
            left = left.drop(columns=columns.idxmax())
    return Complete(left, workloads, treatments)


def _median(own: pd.DataFrame, column: str) -> dict[str, float]:
    flag = f"{column}.saturated"
    values = own[column].astype(float) if column in own else pd.Series(np.nan, index=own.index)
    saturated = 0.0
    if flag in own:
        flags = own[flag].astype("boolean")
        saturated = float(flags.fillna(value=False).sum())
        values = values.mask(values.isna() & flags.notna(), np.inf)
    return {column: float(np.median(values)), flag: saturated}
