"""What the searches of cells tell: outcomes by rate, by the number of tries, ranges of good and of stable rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from initbench.statistics.cells import spread
from initbench.statistics.rates import StableRate, good_range, stable_rate
from initbench.statistics.tunability import tunability

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.metric import Metric

_CELL = ["workload", "treatment"]
_BY_RATE = [
    *_CELL,
    "rate",
    "metric",
    "value_median",
    "value_smallest",
    "value_largest",
    "seeds",
    "diverged",
    "untrained",
]
_BY_TRIES = [*_CELL, "tries", "metric", "value_median", "value_smallest", "value_largest", "seeds", "compute"]


def best_at_rates(tries: pd.DataFrame) -> pd.DataFrame:
    """Return of the tries of a seed at one learning rate the best: where more than that is tuned there are several."""
    ordered = tries.sort_values("outcome", kind="stable")
    return ordered.drop_duplicates([*_CELL, "seed", "rate"]).sort_index()


def by_rate(tries: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return the validation outcome of each cell at each learning rate that it tried, over the seeds.

    Args:
        tries: as from `searches.tries`.
        metrics: of the validation split, by workload.

    Returns:
        ``workload, treatment, rate, metric``; ``value_median, value_smallest, value_largest``: in the metric's own
        direction, not finite where diverged; ``seeds, diverged, untrained``: counts.
    """
    rows = []
    for (workload, treatment, rate), own in best_at_rates(tries).groupby([*_CELL, "rate"], sort=False):
        metric = metrics[str(workload)]
        found = spread(own["outcome"].to_numpy(dtype=float)).in_direction(metric)
        rows.append(
            {
                "workload": workload,
                "treatment": treatment,
                "rate": rate,
                "metric": metric.name,
                **dict(zip(("value_median", "value_smallest", "value_largest"), found, strict=True)),
                "seeds": len(own),
                "diverged": int(own["is_diverged"].sum()),
                "untrained": int((~own["is_trained"] & ~own["is_diverged"]).sum()),
            }
        )
    order = {key: i for i, key in enumerate(dict.fromkeys(zip(tries["workload"], tries["treatment"], strict=True)))}
    rows.sort(key=lambda row: (order[row["workload"], row["treatment"]], row["rate"]))
    return pd.DataFrame(rows, columns=_BY_RATE)


def by_tries(tries: pd.DataFrame, metrics: Mapping[str, Metric]) -> pd.DataFrame:
    """Return what each cell comes to after 1, 2, ... tries in random order (`tunability.tunability`).

    One seed's search chooses and the others show what that is worth, averaged over all of them. What diverged, or is
    worse than chance, counts as chance: no more than that can be lost by a try. Cells of one seed are left out, those
    whose seeds tried other points, and those in which a trial diverged and chance is not known.

    Args:
        tries: as from `searches.tries`.
        metrics: of the validation split, by workload.

    Returns:
        ``workload, treatment, tries, metric``; ``value_median``: the mean over the seeds that choose, in the metric's
        own direction; ``value_smallest, value_largest``: over these; ``seeds``; ``compute``: training steps of the cost
        of so many tries on average, with their initialization, NaN where a record does not say what it spent.
    """
    rows: list[dict[str, Any]] = []
    for (workload, treatment), own in tries.groupby(_CELL, sort=False):
        metric, wide = metrics[str(workload)], _by_seed(own)
        if wide is None:
            continue
        shown = np.minimum(wide, own["chance"].iloc[0]) if not math.isnan(own["chance"].iloc[0]) else wide
        if not np.isfinite(shown).all():
            continue
        curves = tunability(shown)
        cost = float(own["steps"].mean(skipna=False))
        for k in range(curves.shape[1]):
            ends = sorted(metric.oriented(value) for value in (curves[:, k].min(), curves[:, k].max()))
            rows.append(
                {
                    "workload": workload,
                    "treatment": treatment,
                    "tries": k + 1,
                    "metric": metric.name,
                    "value_median": metric.oriented(float(curves[:, k].mean())),
                    **dict(zip(("value_smallest", "value_largest"), ends, strict=True)),
                    "seeds": len(curves),
                    "compute": (k + 1) * cost,
                }
            )
    return pd.DataFrame(rows, columns=_BY_TRIES)


def good_ranges(tries: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """Return the range of good learning rates of each cell that trains (`rates.good_range`).

    Args:
        tries: as from `searches.tries`; outcomes of several seeds at one rate are taken by their median.
    """
    found = {}
    for (workload, treatment), own in best_at_rates(tries).groupby(_CELL, sort=False):
        medians = own.groupby("rate")["outcome"].median()
        if not (own.groupby("rate")["is_trained"].mean() >= 0.5)[medians == medians.min()].any():
            continue
        if (span := good_range(medians.index, medians, float(own["chance"].iloc[0]))) is not None:
            found[str(workload), str(treatment)] = span
    return found


def stable_rates(tries: pd.DataFrame) -> dict[tuple[str, str], list[StableRate]]:
    """Return the largest stable and the best learning rate of every seed of each cell in which some rate trained.

    Args:
        tries: as from `searches.tries`.
    """
    found: dict[tuple[str, str], list[StableRate]] = {}
    for (workload, treatment, _), own in best_at_rates(tries).groupby([*_CELL, "seed"], sort=False):
        one = stable_rate(own["rate"], own["outcome"], own["is_trained"])
        if one is not None:
            found.setdefault((str(workload), str(treatment)), []).append(one)
    return found


def _by_seed(own: pd.DataFrame) -> np.ndarray | None:
    """Return the outcomes of a cell, seeds × points in their order; None where its seeds do not share them."""
    each = [part for _, part in own.groupby("seed", sort=False)]
    points = list(each[0]["point"])
    if len(each) < 2 or any(list(part["point"]) != points for part in each):
        return None
    return np.array([part["outcome"].to_numpy(dtype=float) for part in each])
