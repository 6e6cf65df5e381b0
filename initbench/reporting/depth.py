"""Depth curves: the test error of every initializer as an architecture gets deeper."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from initbench.reporting.statistics.cells import trial_outcomes

COLUMNS = [
    *("family", "initializer", "depth", "seeds", "diverged"),
    *("test_error_median", "test_error_smallest", "test_error_largest"),
]


def depth_curves(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each initializer at each depth, for the families of groups that differ in depth alone.

    ``family`` is the group's name without its depth; the test errors are those of `comparison.compare`, a diverged
    trial counting as +∞. A family of one depth has no row.

    Args:
        trials: as from `comparison.comparable_trials`.
    """
    if "architecture.depth" not in trials:
        return pd.DataFrame(columns=COLUMNS)
    results = trial_outcomes(trials).dropna(subset=["architecture.depth"])
    results = results.assign(family=[without_depth(group) for group in results["group"]])
    rows: list[dict[str, Any]] = []
    for family, members in results.groupby("family", sort=False):
        if members["architecture.depth"].nunique() < 2:
            continue
        for (initializer, depth), cell in members.groupby(["initializer", "architecture.depth"], sort=True):
            rows.append(
                {
                    "family": family,
                    "initializer": initializer,
                    "depth": depth,
                    "seeds": len(cell),
                    "diverged": int((cell["status"] == "diverged").sum()),
                    "test_error_median": float(cell["outcome"].median()),
                    "test_error_smallest": float(cell["outcome"].min()),
                    "test_error_largest": float(cell["outcome"].max()),
                }
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def without_depth(group: str) -> str:
    """Return ``plain[width=1] · lr=0.1`` for ``plain[depth=28, width=1] · lr=0.1``."""
    return re.sub(r"\[\]", "", re.sub(r"(?<=\[)depth=\d+(?:, )?|, depth=\d+(?=[,\]])", "", group))
