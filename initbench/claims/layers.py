"""Criteria on values per layer, judged: which values count, and what they come to at each seed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from initbench.arguments import show
from initbench.claims.counting import counted_status, is_share, mean_or_median, within
from initbench.claims.criterion import SCALE
from initbench.claims.groups import AtSeeds, at_all_seeds
from initbench.claims.judge import judge
from initbench.claims.layer_criteria import LayerDistance, Layers
from initbench.claims.verdict import GroupVerdict
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from initbench.claims.evidence import Evidence
    from initbench.claims.layer_criteria import LayerCriterion
    from initbench.claims.trials import Found

_PROBE, _PER_LAYER = "probe.", "per_layer"


@dataclass(frozen=True, kw_only=True)
class LayerGroup(AtSeeds):
    """A number for each side, seed and layer.

    Attributes:
        sides: for each side and seed the values of the layers that all sides have there, shape (layers,).
    """

    sides: tuple[tuple[NDArray[np.float64], ...], ...]


def layer_groups(criterion: LayerCriterion, evidence: Evidence) -> list[LayerGroup]:
    """Return the values of layers that a criterion judges, one group for every combination of values of ``each``.

    Raises:
        InitbenchError: no trial has the measure for each layer, or a layer that is meant; or as for `Evidence.chosen`.
    """
    chosen = evidence.chosen(
        list(criterion.selectors.values()),
        each=criterion.each,
        protocol=criterion.protocol,
        best_over=criterion.best_over,
    )
    measured = [
        [{seed: layer_values(trial, criterion.measure) for seed, trial in side.items()} for side in one.sides]
        for one in chosen
    ]
    layers = {name for sides in measured for side in sides for values in side.values() for name in values}
    if chosen and not layers:
        raise InitbenchError(f"no trial has {criterion.measure} for each layer")
    pattern = criterion.layers
    if chosen and not any(re.search(pattern, name) for name in layers):
        raise InitbenchError(f"no layer has a name in which {show(pattern)} is found")
    found = []
    for one, sides in zip(chosen, measured, strict=True):
        common = {seed: _common([side.get(seed, {}) for side in sides], pattern) for side in sides for seed in side}
        known = [{seed for seed in side if common[seed]} for side in sides]
        seeds, lacking = at_all_seeds(sides, known)
        values = tuple(
            tuple(np.array([side[seed][name] for name in common[seed]], dtype=float) for seed in seeds)
            for side in sides
        )
        found.append(LayerGroup(label=one.label, seeds=seeds, lacking=lacking, sides=values))
    return found


def layer_values(trial: Found, measure: str) -> dict[str, float]:
    """Return a measurement of a trial by layer; empty where it has none.

    Args:
        trial: with its record.
        measure: ``probe.NAME`` of a probe that measures each layer, itself or as ``NAME.per_layer``; or
            ``initialization.scale``, of the tensors that were scaled.
    """
    if measure == SCALE:
        factors: dict[str, float] = trial.record.initialization.get("factors", {})
        return dict(factors)
    name = measure.removeprefix(_PROBE)
    known = {entry["name"]: entry for entry in trial.record.probes if entry["kind"] == _PER_LAYER}
    entry = known.get(name, known.get(f"{name}.{_PER_LAYER}"))
    if entry is None:
        return {}
    # Several reasons do not say which layer has which.
    reason = entry.get("values_reason", "")
    lost = float(reason) if reason in {"inf", "-inf"} else math.nan
    return {layer: lost if value is None else float(value) for layer, value in entry["values"].items()}


def _common(sides: list[Mapping[str, float]], pattern: str) -> list[str]:
    """Return the layers that all sides have, of those whose name a pattern is found in."""
    first, *others = sides
    return [name for name in first if re.search(pattern, name) and all(name in other for other in others)]


@judge.register(Layers)
def _(criterion: Layers, group: LayerGroup, *, sign: float) -> GroupVerdict:
    del sign
    of, *against = group.sides
    with np.errstate(divide="ignore", invalid="ignore"):
        values = [own / other for own, other in zip(of, against[0], strict=True)] if against else list(of)
    inside = [within(own, criterion.at_least, criterion.at_most) for own in values]
    met = np.array([is_share(own, criterion.share) for own in inside])
    status = counted_status(met, ~met, criterion.held_at, criterion.refuted_at)
    shares = mean_or_median(np.array([own.mean() for own in inside]))
    every = np.concatenate(values)
    ends = (float(every.min()), float(every.max())) if not np.isnan(every).any() else None
    return GroupVerdict(group.label, status, shares, "share", agreeing=int(met.sum()), ends=ends)


@judge.register(LayerDistance)
def _(criterion: LayerDistance, group: LayerGroup, *, sign: float) -> GroupVerdict:
    del sign
    of, reference = group.sides
    distances = np.array([_distance(one, other) for one, other in zip(of, reference, strict=True)])
    met = distances <= criterion.at_most
    far = criterion.at_most if criterion.refuted_above is None else criterion.refuted_above
    status = counted_status(met, distances > far, criterion.held_at, criterion.refuted_at)
    return GroupVerdict(group.label, status, mean_or_median(distances), "number", agreeing=int(met.sum()))


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the mean of |ln(one / other)| but for layers that are 0 in both; +∞ where the logarithm is not finite."""
    known = (one != 0) | (other != 0)
    with np.errstate(all="ignore"):
        logarithms = np.abs(np.log(one[known] / other[known]))
    logarithms[~np.isfinite(logarithms)] = math.inf
    return float(logarithms.mean()) if known.any() else math.nan
