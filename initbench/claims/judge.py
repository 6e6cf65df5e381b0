"""Each kind of criterion, judged: from the values of its sides at each seed to held, did not hold or undecided."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from initbench.claims.counting import LEAST_SEEDS, counted_status, is_share, mean_or_median, within
from initbench.claims.criteria import AtChance, Contrast, Equality, Lead, NotWorse, Ordering, Trains, Within
from initbench.claims.verdict import GroupVerdict
from initbench.statistics.intervals import Estimate, mean_estimate, t_multiplier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from initbench.claims.criterion import Criterion
    from initbench.claims.groups import AtSeeds, Group
    from initbench.claims.verdict import Form, Status

_ALPHA = 0.05


@singledispatch
def judge(criterion: Criterion, group: AtSeeds, *, sign: float) -> GroupVerdict:
    """Return what a criterion comes to in one group that has seeds.

    Args:
        criterion: of a claim.
        group: what it is judged by, of its kind; the sides of a `Group` stand in the order of its `selectors`.
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
    status = counted_status(enough, opposed, criterion.held_at, criterion.refuted_at)
    return GroupVerdict(group.label, status, mean_or_median(differences), "difference", agreeing=int(enough.sum()))


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
    return GroupVerdict(group.label, status, lead, "difference")


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
        return GroupVerdict(group.label, status, ratio, "factor")
    return GroupVerdict(group.label, status, difference, "difference")


@judge.register(NotWorse)
def _(criterion: NotWorse, group: Group, *, sign: float) -> GroupVerdict:
    worse = sign * _differences(*group.sides)
    estimate = mean_estimate(worse)
    status: Status = "undecided"
    if estimate.has_interval and estimate.value + _half_width(estimate, 2 * _ALPHA) < criterion.within:
        status = "held"
    elif is_share(worse > criterion.within, criterion.refuted_at):
        status = "did not hold"
    return GroupVerdict(group.label, status, mean_or_median(_differences(*group.sides)), "difference")


@judge.register(Trains)
def _(criterion: Trains, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    (values,), (chance,) = group.sides, group.at_chance
    met = (values <= criterion.at_most) & (chance != 1)
    status = counted_status(met, chance == 1, criterion.held_at, criterion.refuted_at)
    return GroupVerdict(group.label, status, mean_or_median(values), agreeing=int(met.sum()))


@judge.register(AtChance)
def _(criterion: AtChance, group: Group, *, sign: float) -> GroupVerdict:
    (values,), (chance,) = group.sides, group.at_chance
    met = chance == 1
    better = chance == 0
    if criterion.unless_below is not None:
        better &= sign * values <= sign * criterion.unless_below
    share = 1 / len(values) if criterion.refuted_at is None else criterion.refuted_at
    status = counted_status(met, better, criterion.held_at, share)
    return GroupVerdict(group.label, status, mean_or_median(values), agreeing=int(met.sum()))


@judge.register(Within)
def _(criterion: Within, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    values, *against = group.sides
    if against:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / against[0]
    met = within(values, criterion.at_least, criterion.at_most)
    status = counted_status(met, ~met, criterion.held_at, criterion.refuted_at)
    form: Form = "factor" if against else "value"
    return GroupVerdict(group.label, status, mean_or_median(values), form, agreeing=int(met.sum()))


@judge.register(Contrast)
def _(criterion: Contrast, group: Group, *, sign: float) -> GroupVerdict:
    del sign
    cells = np.array(group.sides).reshape(2, 2, -1)
    first, second = (np.abs(_differences(*cells.mean(axis=axis)[::-1])) for axis in (1, 0))
    met = first > criterion.factor * second
    status = counted_status(met, second > first, criterion.held_at, criterion.refuted_at)
    effects = mean_or_median(first), mean_or_median(second)
    return GroupVerdict(group.label, status, effects[0], "difference", agreeing=int(met.sum()), against=effects[1])


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
    return GroupVerdict("", status, mean, "number", sample="network")


def _differences(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first - second; two that diverged alike are a tie."""
    return np.subtract(first, second, out=np.zeros(len(first)), where=first != second)


def _half_width(estimate: Estimate, alpha: float) -> float:
    """Return half the width of the interval of level 1 - alpha."""
    n = estimate.n
    return estimate.half_width / t_multiplier(n) * float(stats.t.isf(alpha / 2, n - 1)) / math.sqrt(n)
