"""The best rate over the largest stable one, at each seed."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.claims.evidence import Group, Trial, best, labelled, matching, tries_by_seed
from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.claims.criteria import RateRatio
    from initbench.claims.evidence import Evidence

LEAST_LEVELS = 3
"""Two values are always perfectly correlated."""


def rate_groups(criterion: RateRatio, evidence: Evidence) -> list[Group]:
    """Return the ratios of rates that a criterion judges, one group for every combination of values of ``each``.

    Raises:
        InitbenchError: a value is no number; trials of a seed differ in more than they may; or none has a validation
            value.
    """
    trials = matching(evidence.tries(criterion.rate, criterion.protocol), criterion.of)
    return [_group(criterion, label, group) for label, (group,) in labelled([trials], criterion.each).items()]


def _group(criterion: RateRatio, label: str, trials: Sequence[Trial]) -> Group:
    rises_with = criterion.rises_with
    at: dict[float, list[Trial]] = defaultdict(list)
    for trial in trials:
        at[0.0 if rises_with is None else _number(trial, rises_with)].append(trial)
    levels = sorted(at)
    ratios = [
        {seed: _ratio(tries, criterion.rate) for seed, tries in tries_by_seed(at[level], criterion.rate).items()}
        for level in levels
    ]
    seeds = tuple(sorted(set.intersection(*map(set, ratios))))
    table = np.array([[ratio[seed] for ratio in ratios] for seed in seeds], dtype=float)
    table = table.reshape(len(seeds), len(levels))
    problem = ""
    if rises_with is not None:
        untrained = [level for level, column in zip(levels, table.T, strict=True) if np.isnan(column).all()]
        if len(levels) < LEAST_LEVELS:
            problem = f"{counted(LEAST_LEVELS, 'value')} of {rises_with} are the fewest that tell anything"
        elif seeds and untrained:
            problem = f"no rate is stable with {rises_with} {untrained[0]:g}"
    lacking = not seeds or len({trial.seed for trial in trials}) > len(seeds)
    return Group(label=label, seeds=seeds, lacking=lacking, sides=[table], levels=tuple(levels), problem=problem)


def _ratio(tries: Sequence[Trial], rate: str) -> float:
    """Return the best rate over the largest stable one, of tries in ascending order of it; NaN if none is stable."""
    stable = [trial for trial in tries if trial.is_stable]
    return _number(best(tries), rate) / _number(stable[-1], rate) if stable else math.nan


def _number(trial: Trial, name: str) -> float:
    value: Any = trial.properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InitbenchError(f"{name} is no number")
    return float(value)
