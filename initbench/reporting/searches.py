"""The searches of tuned suites: the outcome of every try, and the chosen values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from initbench.comparing.formatting import natural
from initbench.comparing.labels import tuned_keys, value_text
from initbench.reporting.results import Results, once
from initbench.reporting.tune import RATE
from initbench.statistics.cost import initialization_steps

_COLUMNS = [
    *("workload", "treatment", "seed", "point", "rate", "metric", "outcome", "chance", "is_trained", "is_diverged"),
    "steps",
]
_CHOSEN = ["workload", "treatment", "seed", "point", "rate"]


@once
def tries(results: Results) -> pd.DataFrame:
    """Return one row per search trial with a result, sorted by workload, treatment, seed and tried values.

    Returns:
        ``workload, treatment, seed``; ``point``: the tried values, as text; ``rate``: the learning rate; ``metric``:
        the outcome's name; ``outcome``: on the validation split, oriented, +∞ if it diverged; ``chance``: oriented;
        ``is_trained``: whether the outcome is better than chance, or finite if chance is unknown; ``is_diverged``;
        ``steps``: training steps including the cost of the initialization, missing if a record does not have it.
    """
    assert results.tune is not None
    keys, searched = results.tune.keys, results.searched[results.searched["oriented"].notna()]
    rows = []
    for row in searched.to_dict("records"):
        record = results.by_id[row["trial_id"]]
        values = {key: row[key] for key in keys if key in row and row[key] == row[key]}
        trained = row["is_trained"]
        rows.append(
            {
                **{name: row[name] for name in ("workload", "treatment", "seed", "metric")},
                "point": point_text(values, keys),
                "rate": row[RATE],
                "outcome": row["oriented"],
                "chance": row["oriented_chance"],
                "is_trained": bool(np.isfinite(row["oriented"]) if np.isnan(trained) else trained),
                "is_diverged": row["status"] == "diverged",
                "steps": initialization_steps(record) + float(record.metrics.get("steps") or np.nan),
                "order": [_order(values.get(key)) for key in keys],
            }
        )
    rows.sort(key=lambda row: (natural(row["workload"]), natural(row["treatment"]), row["seed"], row["order"]))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _order(value: Any) -> tuple[int, Any]:
    """Return the sort key of a value: None first, then numbers, then texts."""
    if isinstance(value, int | float):
        return 0, value
    return (-1, 0) if value is None else (1, natural(str(value)))


def point_text(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return ``0.1``, or ``lr 0.1, tau 0.3`` if more than the learning rate is tuned."""
    if tuple(keys) == (RATE,):
        return value_text(float(values[RATE]))
    return ", ".join(f"{key.partition('.')[2]} {value_text(value)}" for key, value in values.items())


@once
def chosen(results: Results) -> pd.DataFrame:
    """Return the values that each cell's own search chose at each seed: ``workload, treatment, seed, point, rate``.

    They are those of the final trials under the protocol ``own``. Without such trials they are the best of the search,
    the first in a tie.
    """
    if "own" in results.trials_under:
        return at_protocol(results, "own")
    ordered = tries(results).sort_values("outcome", kind="stable")
    best = ordered.drop_duplicates(["workload", "treatment", "seed"]).sort_index()
    return best[_CHOSEN].reset_index(drop=True)


def at_protocol(results: Results, protocol: str) -> pd.DataFrame:
    """Return the values of a protocol's final trials: ``workload, treatment, seed, point, rate``.

    Trials of other suites that are compared with them, and tune nothing, have no such values.
    """
    assert results.tune is not None
    keys, trials, rows = results.tune.keys, results.trials_under[protocol], []
    for row in trials[trials["protocols"].notna()].to_dict("records"):
        tuned = tuned_keys(results.by_id[row["trial_id"]].spec)
        values = {key: row[key] for key in keys if key in tuned}
        known = {name: row[name] for name in ("workload", "treatment", "seed")}
        rows.append(known | {"point": point_text(values, keys), "rate": row[RATE]})
    return pd.DataFrame(rows, columns=_CHOSEN)


def counts_text(rows: pd.DataFrame) -> str:
    """Return the points in a cell's rows of `chosen` or `at_protocol`: ``0.1``, or ``0.03 (2), 0.1`` if they differ."""
    counts = Counter[str](rows.sort_values("rate", kind="stable")["point"])
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{point} ({number})" if number > 1 else point for point, number in counts.items())
