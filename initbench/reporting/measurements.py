"""Measurements that are no single number: curves and values per layer, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from initbench.reporting.formatting import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from initbench.ledger import TrialRecord

_OF_TRIAL = ["trial_id", "workload", "treatment", "seed", "probe"]
_COLUMNS = {
    "probe_curves": [*_OF_TRIAL, "over", "x", "y", "unit"],
    "probe_layers": [*_OF_TRIAL, "layer", "value", "unit"],
}
_KINDS = {"curve": "probe_curves", "per_layer": "probe_layers"}
_WORDS = {"probe_curves": "curve", "probe_layers": "set of values per layer"}


def measurement_tables(records: Sequence[TrialRecord], trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of the kinds that there are: a row per point of a curve, and per layer.

    Args:
        records: with their measurements.
        trials: as from `comparison.comparable_trials`.
    """
    by_id = {record.id: record for record in records}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _COLUMNS}
    for trial in trials[["trial_id", "workload", "treatment", "seed"]].to_dict("records"):
        for entry in by_id[trial["trial_id"]].probes:
            if name := _KINDS.get(entry["kind"]):
                own = {str(key): value for key, value in trial.items()} | {"probe": entry["name"]}
                rows[name] += [own | row | {"unit": entry.get("unit", "")} for row in _points(entry)]
    return {name: pd.DataFrame(found, columns=_COLUMNS[name]) for name, found in rows.items() if found}


def left_of_statistics(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what the statistics do not take, as a sentence; empty where they take all.

    Args:
        tables: as from `measurement_tables`.
    """
    if not tables:
        return ""
    texts = []
    for name, table in tables.items():
        probes = sorted(set(table["probe"]))
        texts.append(f"{', '.join(probes)} ({counted(len(probes), _WORDS[name])}; {name}.csv)")
    return f"Statistics take single numbers, and leave out {listed(texts)}."


def _points(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if entry["kind"] == "curve":
        places = entry.get("x") or range(len(entry["y"]))
        for x, y in zip(places, entry["y"], strict=True):
            yield {"over": entry.get("over", ""), "x": x, "y": y}
    else:
        for layer, value in entry["values"].items():
            yield {"layer": layer, "value": value}
