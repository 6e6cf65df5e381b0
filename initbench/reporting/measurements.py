"""Curves and values per layer, as tables and as profiles over the seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, listed
from initbench.ledger import TrialRecord

_OF_TRIAL = ["trial_id", "workload", "treatment", "seed", "probe"]
_COLUMNS = {
    "probe_curves": [*_OF_TRIAL, "over", "x", "y", "unit"],
    "probe_layers": [*_OF_TRIAL, "layer", "value", "unit"],
}
KINDS = {"curve": "probe_curves", "per_layer": "probe_layers"}
"""The tables of the kinds of measurements."""
_WORDS = {"probe_curves": "curve", "probe_layers": "layer profile"}
PROFILE_COLUMNS = [
    *("probe", "form", "workload", "treatment", "layer", "place", "seeds"),
    *("value_median", "value_smallest", "value_largest", "unit", "over"),
]


def measurement_tables(by_id: Mapping[str, TrialRecord], trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables ``probe_curves`` (a row per point) and ``probe_layers`` (a row per layer), unless empty."""
    measured: dict[str, list[tuple[dict[Hashable, Any], Mapping[str, Any]]]] = {name: [] for name in _COLUMNS}
    for trial in trials[["trial_id", "workload", "treatment", "seed"]].to_dict("records"):
        for entry in by_id[trial["trial_id"]].probes:
            if name := KINDS.get(entry["kind"]):
                same = trial | {"probe": entry["name"], "over": entry.get("over", ""), "unit": entry.get("unit", "")}
                measured[name].append((same, entry))
    tables = {name: _table(_COLUMNS[name], entries) for name, entries in measured.items() if entries}
    return {name: table for name, table in tables.items() if len(table)}


def _table(
    columns: Sequence[str], measured: Sequence[tuple[Mapping[Hashable, Any], Mapping[str, Any]]]
) -> pd.DataFrame:
    """Return a table built by column, because 10,000 trials of 80 layers are too many for a mapping each."""
    points = [(_names(entry), _values(entry)) for _, entry in measured]
    lengths = [len(names) for names, _ in points]
    whole: dict[str, Any] = {}
    for column in columns:
        if column == "layer":
            whole[column] = pd.Categorical(list(chain.from_iterable(names for names, _ in points)))
        elif column == "x":
            whole[column] = list(chain.from_iterable(names for names, _ in points))
        elif column in {"value", "y"}:
            whole[column] = list(chain.from_iterable(values for _, values in points))
        else:
            one = pd.Series([same[column] for same, _ in measured])
            whole[column] = (one if column == "seed" else one.astype("category")).repeat(lengths).array
    return pd.DataFrame(whole, columns=list(columns))


def left_of_statistics(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return a sentence about the measurements that no statistic uses; empty if there are none."""
    if not tables:
        return ""
    texts = []
    for name, table in tables.items():
        probes = sorted(table["probe"].unique())
        texts.append(f"{', '.join(probes)} ({counted(len(probes), _WORDS[name])}; {name}.csv)")
    return f"Statistics use only single numbers and therefore leave out {listed(texts)}."


def profiles(by_id: Mapping[str, TrialRecord], trials: pd.DataFrame) -> pd.DataFrame:
    """Return the measurements at initialization: one row for each layer, or point of a curve, of each cell.

    - ``probe``, ``form`` (``per_layer`` or ``curve``), ``workload``, ``treatment``; rows are in this order, probes in
      order of first appearance;
    - ``layer``: the layer's or parameter's name, or the x of a point as text; ``place``: the layer's index in the model
      among the layers of all treatments, from 0, or x;
    - ``seeds``: number of trials with a value, finite or not;
    - ``value_median``, ``value_smallest``, ``value_largest``: over the seeds' finite values, NaN if there are none;
    - ``unit``; ``over``: the quantity on a curve's x axis.
    """
    rows: list[dict[str, Any]] = []
    for (probe, kind, workload), by_treatment in _by_probe(by_id, trials).items():
        positions = _positions(by_treatment, kind)
        for treatment, entries in by_treatment.items():
            first = entries[0]
            same = {"probe": probe, "form": kind, "workload": workload, "treatment": treatment}
            same |= {"unit": first.get("unit", ""), "over": first.get("over", "")}
            rows += [same | {"place": positions[layer], **values} for layer, values in _summaries(entries, positions)]
    return pd.DataFrame(rows, columns=PROFILE_COLUMNS)


class Level(NamedTuple):
    """The values of one profile: of layers without their signs, of a curve with them.

    Attributes:
        typical: the median over layers; of a curve, the last value.
        smallest: over layers or points.
        largest: over layers or points.
        layers: number of layers or points with a finite value.
    """

    typical: float
    smallest: float
    largest: float
    layers: int

    @property
    def factor(self) -> float:
        """The largest value divided by the smallest; NaN if all are 0 or one is negative, +∞ if some are 0."""
        if self.smallest < 0 or not self.largest > 0:
            return math.nan
        return self.largest / self.smallest if self.smallest > 0 else math.inf


def level(profile: pd.DataFrame) -> Level:
    """Return the level of `profiles` of one probe, workload and treatment: of its weights' medians, or of its curve."""
    rows = of_weights(profile)
    values = rows["value_median"].dropna()
    if not len(values):
        return Level(math.nan, math.nan, math.nan, 0)
    if rows["form"].iloc[0] == "curve":
        typical = values.iloc[-1]
    else:
        values = values.abs()
        typical = values.median()
    return Level(float(typical), float(values.min()), float(values.max()), len(values))


def of_weights(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose ``layer`` ends in ``weight``, or all rows if there are none.

    Biases and other scalars are left out, because their values are of another kind. Weights of normalization layers
    are kept, because a record does not say which weights are matrices.
    """
    is_weight = np.array([str(layer).endswith("weight") for layer in frame["layer"]], dtype=bool)
    return frame[is_weight] if is_weight.any() else frame


def _by_probe(
    by_id: Mapping[str, TrialRecord], trials: pd.DataFrame
) -> dict[tuple[str, str, str], dict[str, list[Mapping[str, Any]]]]:
    """Return (probe, kind, workload) → treatment → the entries of its trials."""
    entries: dict[tuple[str, str, str], dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for trial, workload, treatment in zip(trials["trial_id"], trials["workload"], trials["treatment"], strict=True):
        for entry in by_id[trial].probes:
            if entry["kind"] in KINDS:
                entries[entry["name"], entry["kind"], workload][treatment].append(entry)
    order = {probe: index for index, (probe, _, _) in enumerate(reversed(entries))}
    return dict(sorted(entries.items(), key=lambda item: -order[item[0][0]]))


def _names(entry: Mapping[str, Any]) -> list[Any]:
    """Return a measurement's layers, or the x of a curve."""
    return list(entry["values"] if entry["kind"] == "per_layer" else entry["x"])


def _values(entry: Mapping[str, Any]) -> list[float | None]:
    return list(entry["values"].values() if entry["kind"] == "per_layer" else entry["y"])


def _positions(by_treatment: Mapping[str, Sequence[Mapping[str, Any]]], kind: str) -> dict[Any, float]:
    """Return each layer's place in one order for all treatments; a scheme may have added layers to some."""
    lists = list(dict.fromkeys(tuple(_names(entry)) for entries in by_treatment.values() for entry in entries))
    if kind == "curve":
        return {x: float(x) for x in sorted({x for names in lists for x in names})}
    order: list[Any] = []
    for names in sorted(lists, key=len, reverse=True):
        known, after = set(order), -1
        for name in names:
            if name in known:
                after = order.index(name)
            else:  # after its predecessor in the same model
                after += 1
                order.insert(after, name)
    return {name: float(position) for position, name in enumerate(order)}


def _summaries(entries: Sequence[Mapping[str, Any]], order: Mapping[Any, float]) -> list[tuple[Any, dict[str, Any]]]:
    """Return each layer of a cell in order, with its columns."""
    values: dict[Any, list[float]] = defaultdict(list)
    for entry in entries:
        for name, value in zip(_names(entry), _values(entry), strict=True):
            values[name].append(math.nan if value is None else float(value))
    summaries = []
    for name in sorted(values, key=order.__getitem__):
        finite = [value for value in values[name] if math.isfinite(value)]  # few, for which numpy is slow
        ends = (median(finite), min(finite), max(finite)) if finite else (math.nan,) * 3
        columns = dict(zip(("value_median", "value_smallest", "value_largest"), ends, strict=True))
        summaries.append((name, {"layer": str(name), "seeds": len(values[name]), **columns}))
    return summaries


_CELL = ["probe", "workload", "treatment"]
_LAYER = ["probe", "workload", "seed", "layer"]


def distances(every: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the distance of each treatment's layers from a reference's.

    Figure 3 of MetaInit (Dauphin & Schoenholz, NeurIPS 2019, section 4.1) compares norms with those of a known good
    initialization. The distance of a trial is the mean over its weights (`of_weights`) of
    |ln(value / the reference's value at the same seed)|, without unit. It is infinite if a value is 0 or not finite.
    Layers that only one of the two has, or where the reference has no finite value above 0, are left out.

    Args:
        every: rows of ``probe``, ``workload``, ``treatment``, ``seed``, ``layer`` and ``value``.
        reference: a treatment's label.

    Returns:
        One row for each probe, workload and treatment except the reference: the number of ``seeds``, and ``median``,
        ``nearest`` and ``farthest`` over them. Empty if the reference was not measured.
    """
    names = every.astype(dict.fromkeys([*_CELL, "layer"], "str"))
    groups = [of_weights(group) for _, group in names.groupby(["probe", "workload"], sort=False)]
    known = pd.concat(groups) if groups else names
    base = known[(known["treatment"] == reference) & (known["value"] > 0) & np.isfinite(known["value"])]
    both = known.merge(base[[*_LAYER, "value"]], on=_LAYER, suffixes=("", "_of_reference"))
    both = both[both["treatment"] != reference]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (both["value"] / both["value_of_reference"]).map(np.log).abs()
    both = both.assign(distance=distance.fillna(math.inf))
    over = both.groupby([*_CELL, "seed"], sort=False)["distance"].mean().groupby(_CELL, sort=False)
    return over.agg(seeds="size", median="median", nearest="min", farthest="max").reset_index()
