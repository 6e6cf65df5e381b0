"""Each kind of criterion, judged: from the values of its sides at each seed to held, did not hold or undecided."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from initbench.reporting.judging.verdict import GroupVerdict
from initbench.reporting.statistics.intervals import Estimate, mean_estimate, t_multiplier
from initbench.suite.criteria import AtChance, Criterion, Equality, Lead, NotWorse, Ordering, Trains, Within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from initbench.reporting.judging.evidence import Group
    from initbench.reporting.judging.verdict import Status

LEAST_SEEDS = 3
"""Below these nothing is held: two of two come out alike by chance too often."""
_ALPHA = 0.05


@singledispatch
def judge(criterion: Criterion, group: Group, *, sign: float) -> GroupVerdict:
    """Return what a criterion comes to in one group that has seeds.

    Args:
        criterion: of a claim.
        group: the values of its sides, in the order of its `selectors`.
        sign: 1 where lower values of the measure are better, -1 where higher ones are.
    """
    del group, sign
    raise TypeError(f"{type(criterion).__name__} is judged over groups")


@judge.register(Ordering)
def _(criterion: Ordering, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    lower, higher = group.sides
    differences = _differences(higher, lower)
    with np.errstate(invalid="ignore"):
        enough = (differences > criterion.by) & (higher >= criterion.factor * lower)
    plain = criterion.by == 0 and criterion.factor == 1
    opposed = differences < 0 if plain else ~enough
    status = _counted(enough, opposed, criterion.refuted_at)
    return GroupVerdict(group.label, status, _mean(differences), is_difference=True, agreeing=int(enough.sum()))


@judge.register(Lead)
def _(criterion: Lead, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    lower, higher, *beyond = group.sides
    differences = _differences(higher, lower)
    if beyond:
        differences = _differences(differences, _differences(beyond[1], beyond[0]))
    lead = mean_estimate(differences)
    status: Status = "undecided"
    if lead.has_interval and lead.low > criterion.by:
        status = "held"
    elif lead.has_interval and lead.high < criterion.by:
        status = "did not hold"
    return GroupVerdict(group.label, status, lead, is_difference=True)


@judge.register(Equality)
def _(criterion: Equality, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    differences, margin = _differences(*group.sides), criterion.within
    if margin is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (np.log(side) for side in group.sides)
        differences, margin = _differences(one, other), math.log(criterion.within_factor or 1.0)
    difference = mean_estimate(differences)
    status: Status = "undecided"
    if difference.n >= LEAST_SEEDS and not difference.has_interval and math.isfinite(difference.value):
        # All seeds differ by the same, as treatments do that are bitwise equal.
        status = "held" if abs(difference.value) < margin else "did not hold"
    elif difference.has_interval:
        half = _half_width(difference, 2 * _ALPHA)
        if -margin < difference.value - half and difference.value + half < margin:
            status = "held"
        elif difference.low > margin or difference.high < -margin:
            status = "did not hold"
    if criterion.within is None:
        value, low, high, n = difference
        with np.errstate(over="ignore"):  # the logarithm of a ratio that no number can hold
            ratio = Estimate(float(np.exp(value)), float(np.exp(low)), float(np.exp(high)), n)
        return GroupVerdict(group.label, status, ratio, is_difference=False, is_ratio=True)
    return GroupVerdict(group.label, status, difference, is_difference=True)


@judge.register(NotWorse)
def _(criterion: NotWorse, group: Group, *, sign: float) -> GroupVerdict:
    worse = sign * _differences(*group.sides)
    estimate = mean_estimate(worse)
    status: Status = "undecided"
    if estimate.has_interval and estimate.value + _half_width(estimate, 2 * _ALPHA) < criterion.within:
        status = "held"
    elif _share(worse > criterion.within, criterion.refuted_at):
        status = "did not hold"
    return GroupVerdict(group.label, status, _mean(_differences(*group.sides)), is_difference=True)


@judge.register(Trains)
def _(criterion: Trains, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    (values,), (chance,) = group.sides, group.at_chance
    met = values <= criterion.at_most
    status = _counted(met, chance == 1, criterion.refuted_at)
    return GroupVerdict(group.label, status, _mean(values), is_difference=False, agreeing=int(met.sum()))


@judge.register(AtChance)
def _(criterion: AtChance, group: Group, *, sign: float) -> GroupVerdict:
    (values,), (chance,) = group.sides, group.at_chance
    met = chance == 1
    better = chance == 0
    if criterion.unless_below is not None:
        better &= sign * values <= sign * criterion.unless_below
    share = 1 / len(values) if criterion.refuted_at is None else criterion.refuted_at
    status = _counted(met, better, share)
    return GroupVerdict(group.label, status, _mean(values), is_difference=False, agreeing=int(met.sum()))


@judge.register(Within)
def _(criterion: Within, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    (values,) = group.sides
    low = -math.inf if criterion.at_least is None else criterion.at_least
    high = math.inf if criterion.at_most is None else criterion.at_most
    met = (values >= low) & (values <= high)
    status = _counted(met, ~met, criterion.refuted_at)
    return GroupVerdict(group.label, status, _mean(values), is_difference=False, agreeing=int(met.sum()))


def judge_correlations(correlations: NDArray[np.float64], at_least: float) -> GroupVerdict:
    """Return what a `Correlation` comes to.

    Args:
        correlations: Spearman's, one for each group, shape (groups,).
        at_least: what their mean must exceed.
    """
    mean = mean_estimate(correlations)
    status: Status = "undecided"
    if mean.has_interval and mean.low > at_least:
        status = "held"
    elif mean.has_interval and mean.high < at_least:
        status = "did not hold"
    return GroupVerdict("", status, mean, is_difference=False)


def chance_of(criterion: Criterion, seeds: int) -> float:
    """Return how likely a criterion comes out as held if what it says is false, at the most.

    What every seed must meet, and would meet at one seed in two if nothing were in it, is met at all of them with
    2⁻ⁿ: the one-sided sign test. What an interval must show has the 5 % of its test; that of a `Lead` or a
    `Correlation`, of which one side of a 95 % interval counts, 2.5 %.

    Args:
        criterion: of a claim.
        seeds: n, with which it is judged.
    """
    if isinstance(criterion, Equality | NotWorse):
        return _ALPHA
    if isinstance(criterion, Ordering | Trains | AtChance | Within):
        return 0.5**seeds if seeds else 0.0
    return _ALPHA / 2


def _differences(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first - second; two that diverged alike are a tie."""
    return np.subtract(first, second, out=np.zeros(len(first)), where=first != second)


def _mean(values: NDArray[np.float64]) -> Estimate:
    """Return a mean with its interval; where a trial diverged the median, without one."""
    if np.isfinite(values).all():
        return mean_estimate(values)
    with np.errstate(invalid="ignore"):
        return Estimate(float(np.median(values)), math.nan, math.nan, len(values))


def _half_width(estimate: Estimate, alpha: float) -> float:
    """Return half the width of the interval of level 1 - alpha."""
    n = estimate.n
    return estimate.half_width / t_multiplier(n) * float(stats.t.isf(alpha / 2, n - 1)) / math.sqrt(n)


def _counted(met: NDArray[np.bool_], opposed: NDArray[np.bool_], share: float) -> Status:
    if _share(opposed, share):
        return "did not hold"
    return "held" if met.all() and len(met) >= LEAST_SEEDS else "undecided"


def _share(which: NDArray[np.bool_], share: float) -> bool:
    """Return whether so large a share of the seeds is such; 4 of 5 are a share of 0.8."""
    return int(which.sum()) >= max(1, math.ceil(share * len(which) - 1e-9))
