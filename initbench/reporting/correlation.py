"""Whether the gradient quotient at initialization predicts the test error, within one group of trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

MINIMUM_INITIALIZERS = 5


def correlate(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's ρ between gradient quotient and test error over the initializers of each group.

    Each initializer is one point: the medians over its seeds, a diverged trial counting as an error of +∞, equal values
    sharing their mean rank. An initializer is left out where the quotient of any of its trials is saturated: it is then
    a constant that says nothing of curvature. Below 5 initializers there is no ρ.

    Args:
        comparison: as from `comparison.compare`.

    Returns:
        One row per group: ``group``, ``rho``, ``n`` (initializers in ρ), ``saturated`` (initializers left out) and
        ``remark`` (why there is no ρ, else empty).
    """
    columns = ["group", "rho", "n", "saturated", "remark"]
    groups = comparison.groupby("group", sort=False)
    return pd.DataFrame([{"group": group, **_correlation(table)} for group, table in groups], columns=columns)


def _correlation(table: pd.DataFrame) -> dict[str, Any]:
    measured = table.dropna(subset=["gradient_quotient_median", "test_error_median"])
    used = measured[measured["gradient_quotient_saturated"] == 0]
    rho, remark = np.nan, ""
    if len(used) < MINIMUM_INITIALIZERS:
        remark = f"not enough initializers (n = {len(used)})"
    elif len(set(used["gradient_quotient_median"])) == 1 or len(set(used["test_error_median"])) == 1:
        remark = "all values are equal"
    else:
        rho = float(stats.spearmanr(used["gradient_quotient_median"], used["test_error_median"]).statistic)
    return {"rho": rho, "n": len(used), "saturated": len(measured) - len(used), "remark": remark}
