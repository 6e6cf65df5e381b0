"""Measurements that are no single number: curves and values per layer, as tables and as profiles over the seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from initbench.comparing.formatting import counted, listed

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from initbench.ledger import TrialRecord

_OF_TRIAL = ["trial_id", "workload", "treatment", "seed", "probe"]
_COLUMNS = {
    "probe_curves": [*_OF_TRIAL, "over", "x", "y", "unit"],
    "probe_layers": [*_OF_TRIAL, "layer", "value", "unit"],
}
_KINDS = {"curve": "probe_curves", "per_layer": "probe_layers"}
_WORDS = {"probe_curves": "curve", "probe_layers": "set of values per layer"}
PROFILE_COLUMNS = [
    *("probe", "form", "workload", "treatment", "layer", "place", "seeds"),
    *("value_median", "value_smallest", "value_largest", "unit", "over"),
]


def measurement_tables(records: Sequence[TrialRecord], trials: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the tables of the kinds that there are: a row per point of a curve, and per layer.

    Texts, of which most repeat, are categories.

    Args:
        records: with their measurements.
        trials: as from `trials.comparable_trials`.
    """
    by_id = {record.id: record for record in records}
    found: dict[str, list[tuple[dict[Hashable, Any], Mapping[str, Any]]]] = {name: [] for name in _COLUMNS}
    for trial in trials[["trial_id", "workload", "treatment", "seed"]].to_dict("records"):
        for entry in by_id[trial["trial_id"]].probes:
            if name := _KINDS.get(entry["kind"]):
                same = trial | {"probe": entry["name"], "over": entry.get("over", ""), "unit": entry.get("unit", "")}
                found[name].append((same, entry))
    tables = {name: _table(_COLUMNS[name], own) for name, own in found.items() if own}
    return {name: table for name, table in tables.items() if len(table)}


def _table(columns: Sequence[str], found: Sequence[tuple[Mapping[Hashable, Any], Mapping[str, Any]]]) -> pd.DataFrame:
    """Return the points of measurements by column: 10,000 trials of 80 layers are too many for a mapping each."""
    points = [(_names(entry), _values(entry)) for _, entry in found]
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
            one = pd.Series([same[column] for same, _ in found])
            whole[column] = (one if column == "seed" else one.astype("category")).repeat(lengths).array
    return pd.DataFrame(whole, columns=list(columns))


def left_of_statistics(tables: Mapping[str, pd.DataFrame]) -> str:
    """Return what the statistics do not take, as a sentence; empty where they take all.

    Args:
        tables: as from `measurement_tables`.
    """
    if not tables:
        return ""
    texts = []
    for name, table in tables.items():
        probes = sorted(table["probe"].unique())
        texts.append(f"{', '.join(probes)} ({counted(len(probes), _WORDS[name])}; {name}.csv)")
    return f"Statistics take single numbers, and leave out {listed(texts)}."


def profiles(records: Sequence[TrialRecord], trials: pd.DataFrame) -> pd.DataFrame:
    """Return what the network looked like at initialization: one row per layer, or point of a curve, of each cell.

    - ``probe``, ``form`` (``per_layer`` or ``curve``), ``workload``, ``treatment``; rows stand in this order, probes as
      they are first met;
    - ``layer``: the layer's or parameter's name; of a curve, its place as text; ``place``: from 0 in the model's order,
      counted over all layers that any treatment has there; of a curve, its place;
    - ``seeds``: trials that have a value there, not finite ones included;
    - ``value_median``, ``value_smallest``, ``value_largest``: over the seeds' finite values, NaN where there are none;
    - ``unit``; ``over``: what a curve's places are.

    Args:
        records: with their measurements.
        trials: as from `trials.comparable_trials`.
    """
    measured = _by_probe(records, trials)
    rows: list[dict[str, Any]] = []
    for (probe, kind, workload), own in measured.items():
        places = _places(own, kind)
        for treatment, entries in own.items():
            first = entries[0]
            same = {"probe": probe, "form": kind, "workload": workload, "treatment": treatment}
            same |= {"unit": first.get("unit", ""), "over": first.get("over", "")}
            rows += [same | {"place": places[layer], **values} for layer, values in _summaries(entries, places)]
    return pd.DataFrame(rows, columns=PROFILE_COLUMNS)


class Level(NamedTuple):
    """How large the values of one profile are.

    Attributes:
        typical: the median of the layers' values, by size; of a curve, the size of its last value.
        smallest: size of a layer's or point's value.
        largest: likewise.
        layers: how many have a finite value.
    """

    typical: float
    smallest: float
    largest: float
    layers: int

    @property
    def factor(self) -> float:
        """By which the largest is larger than the smallest; NaN where all are 0, +∞ where some are."""
        if not self.largest > 0:
            return math.nan
        return self.largest / self.smallest if self.smallest > 0 else math.inf


def level(profile: pd.DataFrame) -> Level:
    """Return how large the values of one treatment are, over what `of_weights` leaves; of a curve over all.

    Args:
        profile: of one probe, workload and treatment, as from `profiles`; its medians over the seeds are taken.
    """
    own = of_weights(profile)
    sizes = own["value_median"].dropna().abs()
    if not len(sizes):
        return Level(math.nan, math.nan, math.nan, 0)
    typical = sizes.iloc[-1] if own["form"].iloc[0] == "curve" else sizes.median()
    return Level(float(typical), float(sizes.min()), float(sizes.max()), len(sizes))


def of_weights(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of weights where the layers' names tell them, else all.

    A weight is what ends in ``weight``: biases and other scalars are of another kind, and so are their values. A record
    does not say which weights are matrices: those of normalization layers are among them.

    Args:
        frame: with ``layer``.
    """
    is_weight = frame["layer"].astype(str).str.endswith("weight")
    return frame[is_weight] if is_weight.any() else frame


def _by_probe(
    records: Sequence[TrialRecord], trials: pd.DataFrame
) -> dict[tuple[str, str, str], dict[str, list[Mapping[str, Any]]]]:
    """Return (probe, kind, workload) → treatment → the entries of its trials."""
    by_id = {record.id: record for record in records}
    found: dict[tuple[str, str, str], dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for own, workload, treatment in zip(trials["trial_id"], trials["workload"], trials["treatment"], strict=True):
        for entry in by_id[own].probes:
            if entry["kind"] in _KINDS:
                found[entry["name"], entry["kind"], workload][treatment].append(entry)
    order = {probe: index for index, (probe, _, _) in enumerate(reversed(found))}
    return dict(sorted(found.items(), key=lambda item: -order[item[0][0]]))


def _names(entry: Mapping[str, Any]) -> list[Any]:
    """Return a measurement's layers, or the places of a curve.

    Raises:
        ValueError: a curve has not as many places as values.
    """
    if entry["kind"] == "per_layer":
        return list(entry["values"])
    places = list(entry.get("x") or range(len(entry["y"])))
    if len(places) != len(entry["y"]):
        raise ValueError(f"{entry['name']} has {len(entry['y'])} values at {len(places)} places")
    return places


def _values(entry: Mapping[str, Any]) -> list[float | None]:
    return list(entry["values"].values() if entry["kind"] == "per_layer" else entry["y"])


def _places(own: Mapping[str, Sequence[Mapping[str, Any]]], kind: str) -> dict[Any, float]:
    """Return the place of each layer: treatments may have layers of their own, which a scheme added."""
    lists = list(dict.fromkeys(tuple(_names(entry)) for entries in own.values() for entry in entries))
    if kind == "curve":
        return {x: float(x) for x in sorted({x for names in lists for x in names})}
    order: list[Any] = []
    for names in sorted(lists, key=len, reverse=True):
        known, after = set(order), -1
        for name in names:
            if name in known:
                after = order.index(name)
            else:  # behind what stands before it in its own model
                after += 1
                order.insert(after, name)
    return {name: float(place) for place, name in enumerate(order)}


def _summaries(entries: Sequence[Mapping[str, Any]], places: Mapping[Any, float]) -> list[tuple[Any, dict[str, Any]]]:
    """Return for each layer of a cell, in order, the columns that are its own."""
    values: dict[Any, list[float]] = defaultdict(list)
    for entry in entries:
        for name, value in zip(_names(entry), _values(entry), strict=True):
            values[name].append(math.nan if value is None else float(value))
    found = []
    for name in sorted(values, key=places.__getitem__):
        own = np.array(values[name])
        finite = own[np.isfinite(own)]
        ends = (np.median(finite), finite.min(), finite.max()) if len(finite) else (math.nan,) * 3
        columns = dict(zip(("value_median", "value_smallest", "value_largest"), map(float, ends), strict=True))
        found.append((name, {"layer": str(name), "seeds": len(own), **columns}))
    return found


_CELL = ["probe", "workload", "treatment"]
_LAYER = ["probe", "workload", "seed", "layer"]


def distances(every: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return how far each treatment's layers are from a reference's.

    Figure 3 of MetaInit (Dauphin & Schoenholz, NeurIPS 2019, section 4.1) compares norms with those of a known good
    initialization; this is their distance as a number, without unit: for a trial the mean over the weights
    (`of_weights`) of |ln(value / the reference's value at the same seed)|. A value that is 0 or not finite is
    infinitely far. Layers that one of the two lacks, or for which the reference has no value above 0, are left out.

    Args:
        every: rows of ``probe``, ``workload``, ``treatment``, ``seed``, ``layer`` and ``value``.
        reference: the treatment's label.

    Returns:
        One row for each probe, workload and treatment: ``seeds``, and over them ``median``, ``nearest`` and
        ``farthest``. No row if the reference was not measured.
    """
    names = every.astype(dict.fromkeys([*_CELL, "layer"], "str"))
    groups = [of_weights(own) for _, own in names.groupby(["probe", "workload"], sort=False)]
    known = pd.concat(groups) if groups else names
    own = known[(known["treatment"] == reference) & (known["value"] > 0) & np.isfinite(known["value"])]
    both = known.merge(own[[*_LAYER, "value"]], on=_LAYER, suffixes=("", "_of_reference"))
    both = both[both["treatment"] != reference]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (both["value"] / both["value_of_reference"]).map(np.log).abs()
    both = both.assign(distance=distance.fillna(math.inf))
    over = both.groupby([*_CELL, "seed"], sort=False)["distance"].mean().groupby(_CELL, sort=False)
    return over.agg(seeds="size", median="median", nearest="min", farthest="max").reset_index()
