"""The best rate against the largest stable one, judged: the ratio at each seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from initbench.claims.choice import best, tries_by_seed
from initbench.claims.counting import counted_status, mean_or_median, within
from initbench.claims.criteria import RateRatio
from initbench.claims.evidence import label_of, matching
from initbench.claims.groups import AtSeeds
from initbench.claims.judge import judge
from initbench.claims.verdict import GroupVerdict
from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.statistics.intervals import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from initbench.claims.evidence import Evidence
    from initbench.claims.trials import Found
    from initbench.claims.verdict import Status

LEAST_PLACES = 3
"""Two values are always perfectly correlated."""


@dataclass(frozen=True, kw_only=True)
class RateGroup(AtSeeds):
    """Best / largest stable rate.

    Attributes:
        places: the values of what the ratio is to rise with, ascending; empty where that is nothing.
        ratios: shape (seeds, places), or (seeds, 1) without places; NaN where no rate is stable.
    """

    places: tuple[float, ...]
    ratios: NDArray[np.float64]


def rate_groups(criterion: RateRatio, evidence: Evidence) -> list[RateGroup]:
    """Return the ratios of rates that a criterion judges, one group for every combination of values of ``each``.

    Raises:
        InitbenchError: a value is no number; trials of a seed differ in more than they may; or none has a validation
            value.
    """
    trials = matching(evidence.tries(criterion.rate, criterion.protocol), criterion.of)
    labels = dict.fromkeys(label_of(trial, criterion.each) for trial in trials)
    return [_group(criterion, label, [t for t in trials if label_of(t, criterion.each) == label]) for label in labels]


def _group(criterion: RateRatio, label: str, trials: Sequence[Found]) -> RateGroup:
    risen = criterion.rises_with
    at: dict[float, list[Found]] = {}
    for trial in trials:
        at.setdefault(0.0 if risen is None else _number(trial, risen), []).append(trial)
    places = sorted(at)
    ratios = [
        {seed: _ratio(tries, criterion.rate) for seed, tries in tries_by_seed(at[place], criterion.rate).items()}
        for place in places
    ]
    seeds = tuple(sorted(set.intersection(*(set(own) for own in ratios))))
    table = np.array([[own[seed] for own in ratios] for seed in seeds], dtype=float).reshape(len(seeds), len(places))
    problem = ""
    if risen is not None:
        untrained = [place for place, column in zip(places, table.T, strict=True) if np.isnan(column).all()]
        if len(places) < LEAST_PLACES:
            problem = f"{counted(LEAST_PLACES, 'value')} of {risen} are the fewest that tell anything"
        elif seeds and untrained:
            problem = f"no rate is stable with {risen} {untrained[0]:g}"
    return RateGroup(
        label=label,
        seeds=seeds,
        lacking=not seeds or len({trial.seed for trial in trials}) > len(seeds),
        problem=problem,
        places=() if risen is None else tuple(places),
        ratios=table,
    )


def _ratio(tries: Sequence[Found], rate: str) -> float:
    """Return the best rate / the largest stable one; NaN where none is stable.

    Args:
        tries: of one seed, in ascending order of the rate.
        rate: the property.
    """
    stable = [trial for trial in tries if trial.is_stable]
    return _number(best(tries), rate) / _number(stable[-1], rate) if stable else math.nan


def _number(trial: Found, name: str) -> float:
    value: Any = trial.properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InitbenchError(f"{name} is no number")
    return float(value)


@judge.register(RateRatio)
def _(criterion: RateRatio, group: RateGroup, *, sign: float) -> GroupVerdict:
    del sign
    if criterion.rises_with is not None:
        return _rising(criterion, group)
    ratios = group.ratios[:, 0]
    met = within(ratios, criterion.at_least, criterion.at_most)
    status = counted_status(met, ~met & ~np.isnan(ratios), criterion.held_at, criterion.refuted_at)
    estimate = mean_or_median(ratios[~np.isnan(ratios)])._replace(n=len(ratios))
    return GroupVerdict(group.label, status, estimate, "number", agreeing=int(met.sum()))


def _rising(criterion: RateRatio, group: RateGroup) -> GroupVerdict:
    correlation = math.nan
    if not group.problem:
        from scipy.stats import spearmanr

        means = np.nanmean(group.ratios, axis=0)
        if len(np.unique(means)) > 1:
            correlation = float(spearmanr(group.places, means).statistic)
    status: Status = "undecided"
    if correlation >= criterion.correlation - 1e-12:
        status = "held"
    elif correlation <= 0:
        status = "did not hold"
    return GroupVerdict(group.label, status, Estimate(correlation, math.nan, math.nan, len(group.seeds)), "number")
