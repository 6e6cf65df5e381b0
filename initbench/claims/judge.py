"""The judging of claims: from the values of a criterion's sides at each seed to held, did not hold or undecided."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from initbench.claims.criteria import (
    AtChance,
    Contrast,
    Correlation,
    Difference,
    Equality,
    LayerCriterion,
    LayerDistance,
    Layers,
    Lead,
    NotWorse,
    Ordering,
    RateRatio,
    Trains,
    Within,
)
from initbench.claims.evidence import LEAST_RANKED
from initbench.claims.verdict import ClaimVerdict, CriterionVerdict, GroupVerdict
from initbench.comparing.formatting import counted
from initbench.errors import InitbenchError
from initbench.statistics.intervals import Estimate, mean_estimate, t_multiplier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from initbench.claims.claim import Claim
    from initbench.claims.criteria import Criterion
    from initbench.claims.evidence import Evidence, Group
    from initbench.claims.verdict import Form, Status

LEAST_SEEDS = 3
"""With fewer seeds nothing is held: one of two seeds, or two of two, are too little evidence."""
_ALPHA = 0.05
_Counted = Ordering | Trains | AtChance | Within | Contrast | Layers | LayerDistance | RateRatio


def judge_claims(evidence: Evidence, claims: Sequence[Claim], seeds: int) -> list[ClaimVerdict]:
    """Return the verdict for each claim.

    Args:
        evidence: the trials.
        claims: of the suite, or others: ``Claim.model_validate`` makes one from plain data. If no trial meets a
            condition, the claim is not run, which is not an error.
        seeds: of the suite; with fewer seeds nothing is judged, so that nobody stops at a convenient moment. If some
            sides have more, as in a report of several suites, the seeds that all sides have are judged.
    """
    verdicts = []
    for claim in claims:
        criteria, refutations = (
            tuple(_judge_criterion(criterion, evidence, seeds) for criterion in listed)
            for listed in (claim.criteria, claim.refuted_by)
        )
        verdicts.append(of_claim(claim, criteria, refutations))
    return verdicts


def _judge_criterion(criterion: Criterion, evidence: Evidence, seeds: int) -> CriterionVerdict:
    metric = evidence.metric(criterion.measure)
    try:
        if isinstance(criterion, Correlation):
            return replace(_judge_correlations(criterion, evidence, seeds), metric=metric)
        groups = _groups(criterion, evidence)
    except InitbenchError as error:
        return CriterionVerdict(criterion, "undecided", lacks=str(error), metric=metric)
    known = [group for group in groups if group.seeds]
    if not known:
        return CriterionVerdict(criterion, "not run", metric=metric)
    verdicts = tuple(replace(judge(criterion, group), label=group.label, diverged=group.diverged) for group in known)
    lacks = _lacks_seeds(min(len(group.seeds) for group in groups), seeds)
    lacks = lacks or next((group.problem for group in known if group.problem), "")
    status: Status = "undecided" if lacks else _of_groups([one.status for one in verdicts], criterion.groups)
    metrics = {group.metric for group in known}
    return CriterionVerdict(criterion, status, verdicts, lacks, metrics.pop() if len(metrics) == 1 else None)


def _lacks_seeds(fewest: int, seeds: int) -> str:
    """Return in words how many seeds are missing; empty if there are as many as the suite has, and enough."""
    if fewest < seeds:
        return f"{fewest} of {counted(seeds, 'seed')} have a result"
    return f"at least {counted(LEAST_SEEDS, 'seed')} are needed" if fewest < LEAST_SEEDS else ""


def _groups(criterion: Criterion, evidence: Evidence) -> list[Group]:
    if isinstance(criterion, RateRatio):
        return evidence.ratios(criterion)
    if isinstance(criterion, LayerCriterion):
        return evidence.layers(criterion)
    sides = list(criterion.selectors.values())
    groups = evidence.groups(sides, criterion.measure, criterion.each, criterion.protocol, criterion.best_over)
    if isinstance(criterion, Trains) and any(group.sign < 0 for group in groups):
        raise InitbenchError("at_most is for measures where lower is better; use within, with at_least")
    return groups


def _of_groups(statuses: Sequence[Status], least: int | None) -> Status:
    """Return the verdict for a criterion that must hold in a number of groups, or in all."""
    needed = len(statuses) if least is None else least
    if statuses.count("held") >= needed:
        return "held"
    return "did not hold" if len(statuses) - statuses.count("did not hold") < needed else "undecided"


def of_claim(
    claim: Claim, criteria: tuple[CriterionVerdict, ...], refutations: tuple[CriterionVerdict, ...]
) -> ClaimVerdict:
    """Return the verdict for a claim.

    Without refutations it held if all criteria did, and did not hold if one did not. With refutations it did not hold
    if any of these is met, and a criterion that did not hold leaves it undecided. It is also undecided if all criteria
    are met and a refutation is met or has not been judged.
    """
    if not refutations:
        return ClaimVerdict(claim, _together([one.status for one in criteria]), criteria)
    status, lacks = _together(["undecided" if one.status == "did not hold" else one.status for one in criteria]), ""
    refuted = any(one.status == "held" for one in refutations)
    if status == "held" and refuted:
        status, lacks = "undecided", "criteria and refuted_by contradict each other: both are met"
    elif refuted:
        status = "did not hold"
    elif status == "held" and any(one.status == "not run" or one.lacks for one in refutations):
        status, lacks = "undecided", "what would refute it has not been judged"
    return ClaimVerdict(claim, status, criteria, refutations, lacks)


def _together(statuses: Sequence[Status]) -> Status:
    """Return the verdict for several criteria that must all hold."""
    for status in ("did not hold", "not run", "undecided"):
        if status in statuses:
            return status
    return "held" if statuses else "not run"


@singledispatch
def judge(criterion: Criterion, group: Group) -> GroupVerdict:
    raise TypeError(f"{type(criterion).__name__} does not judge {group}")


@judge.register(Ordering)
def _(criterion: Ordering, group: Group) -> GroupVerdict:
    lower, higher = group.sides
    differences = _differences_or_ties(higher, lower)
    with np.errstate(invalid="ignore"):
        enough = (differences > criterion.by) & (higher >= criterion.factor * lower)
    opposed = differences < 0 if criterion.by == 0 and criterion.factor == 1 else ~enough
    if criterion.factor == 1 or criterion.by:
        return _by_seeds(criterion, enough, opposed, differences, "difference")
    with np.errstate(divide="ignore", invalid="ignore"):
        return _by_seeds(criterion, enough, opposed, higher / lower, "factor")


@judge.register(Lead)
def _(criterion: Lead, group: Group) -> GroupVerdict:
    lower, higher, *beyond = group.sides
    differences = _differences(higher, lower)
    if beyond:
        differences = _differences(differences, _differences(beyond[1], beyond[0]))
    return _by_mean(differences, criterion.by, "difference")


@judge.register(Equality)
def _(criterion: Equality, group: Group) -> GroupVerdict:
    (one, other), margin = group.sides, criterion.within
    if margin is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other, margin = np.log(one), np.log(other), math.log(criterion.within_factor or 1.0)
    difference = mean_estimate(_differences(one, other))
    status = _equal_within(difference, margin)
    if criterion.within is not None:
        return GroupVerdict(status, difference, "difference")
    with np.errstate(over="ignore"):  # the logarithm of a ratio that overflows
        value, low, high = (float(np.exp(logarithm)) for logarithm in difference[:3])
    return GroupVerdict(status, Estimate(value, low, high, difference.n), "factor")


def _equal_within(difference: Estimate, margin: float) -> Status:
    low, high = _one_sided_ends(difference)
    if -margin < low and high < margin:
        return "held"
    is_beyond = low == high or difference.low > margin or difference.high < -margin
    return "did not hold" if is_beyond else "undecided"


def _one_sided_ends(difference: Estimate) -> tuple[float, float]:
    """Return the ends of the 90 % interval, by which one-sided tests at 5 % decide.

    Both are the difference itself if it is the same at all seeds, and NaN if they are unknown.
    """
    value = difference.value
    if difference.has_interval:
        half = _half_width(difference, 2 * _ALPHA)
        return value - half, value + half
    return (value, value) if difference.n >= LEAST_SEEDS else (math.nan, math.nan)


@judge.register(Difference)
def _(criterion: Difference, group: Group) -> GroupVerdict:
    difference = mean_estimate(_differences(*group.sides))
    equal = _equal_within(difference, criterion.by)
    opposite: dict[Status, Status] = {"held": "did not hold", "did not hold": "held"}
    return GroupVerdict(opposite.get(equal, equal), difference, "difference")


@judge.register(NotWorse)
def _(criterion: NotWorse, group: Group) -> GroupVerdict:
    differences = _differences(*group.sides)
    worse = group.sign * differences
    status: Status = "undecided"
    if _one_sided_ends(mean_estimate(worse))[1] < criterion.within:
        status = "held"
    elif is_share(worse > criterion.within, criterion.refuted_at):
        status = "did not hold"
    return GroupVerdict(status, mean_or_median(differences), "difference")


@judge.register(Trains)
def _(criterion: Trains, group: Group) -> GroupVerdict:
    (values,), (chance,) = group.sides, group.at_chance
    return _by_seeds(criterion, (values <= criterion.at_most) & (chance != 1), chance == 1, values)


@judge.register(AtChance)
def _(criterion: AtChance, group: Group) -> GroupVerdict:
    (values,), (chance,) = group.sides, group.at_chance
    better = chance == 0
    if criterion.unless_below is not None:
        better &= group.sign * values <= group.sign * criterion.unless_below
    return _by_seeds(criterion, chance == 1, better, values)


@judge.register(Within)
def _(criterion: Within, group: Group) -> GroupVerdict:
    values, *against = group.sides
    if against:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = values / against[0]
    met = _within(values, criterion)
    return _by_seeds(criterion, met, ~met, values, "factor" if against else "value")


@judge.register(Contrast)
def _(criterion: Contrast, group: Group) -> GroupVerdict:
    cells = np.array(group.sides).reshape(2, 2, -1)
    first, second = (np.abs(_differences_or_ties(*cells.mean(axis=axis)[::-1])) for axis in (1, 0))
    verdict = _by_seeds(criterion, first > criterion.factor * second, second > first, first, "difference")
    return replace(verdict, against=mean_or_median(second))


@judge.register(Layers)
def _(criterion: Layers, group: Group) -> GroupVerdict:
    values, *against = group.sides
    if against:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = [one / other for one, other in zip(values, against[0], strict=True)]
    inside = [_within(layers, criterion) for layers in values]
    met = np.array([is_share(layers, criterion.share) for layers in inside])
    every = np.concatenate(values)
    ends = None if np.isnan(every).any() else (float(every.min()), float(every.max()))
    verdict = _by_seeds(criterion, met, ~met, np.array([layers.mean() for layers in inside]), "share")
    return replace(verdict, estimate=verdict.estimate.clipped(0, 1), ends=ends)


@judge.register(LayerDistance)
def _(criterion: LayerDistance, group: Group) -> GroupVerdict:
    of, reference = group.sides
    distances = np.array([_distance(one, other) for one, other in zip(of, reference, strict=True)])
    far = criterion.at_most if criterion.refuted_above is None else criterion.refuted_above
    return _by_seeds(criterion, distances <= criterion.at_most, distances > far, distances, "number")


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the mean of |ln(one / other)| over layers that are not 0 in both; +∞ if a logarithm is not finite."""
    known = (one != 0) | (other != 0)
    with np.errstate(all="ignore"):
        logarithms = np.abs(np.log(one[known] / other[known]))
    logarithms[~np.isfinite(logarithms)] = math.inf
    return float(logarithms.mean()) if known.any() else math.nan


@judge.register(RateRatio)
def _(criterion: RateRatio, group: Group) -> GroupVerdict:
    (table,) = group.sides
    if criterion.rises_with is not None:
        return _rising(criterion, group, table)
    ratios = table[:, 0] if criterion.against is None else table[:, 0] / table[:, 1]
    met, is_known = _within(ratios, criterion), ~np.isnan(ratios)
    verdict = _by_seeds(criterion, met, ~met & is_known, ratios[is_known], "number")
    return replace(verdict, estimate=verdict.estimate._replace(n=len(ratios)).clipped(0, math.inf))


def _rising(criterion: RateRatio, group: Group, table: NDArray[np.float64]) -> GroupVerdict:
    correlation = math.nan
    if not group.problem:
        # Equal ratios of different rates may differ in the last bit, 0.01 / 0.1 < 0.1 / 1.0, and would be ranked.
        with np.errstate(divide="ignore"):  # the best rate may be 0
            means: NDArray[np.float64] = np.nanmean(np.log(table), axis=0).round(9)
        if len(np.unique(means)) > 1:
            correlation = float(stats.spearmanr(group.levels, means).statistic)
    status: Status = "undecided"
    if correlation >= criterion.correlation - 1e-12:
        status = "held"
    elif correlation <= 0:
        status = "did not hold"
    return GroupVerdict(status, Estimate(correlation, math.nan, math.nan, len(group.seeds)), "number")


def _judge_correlations(criterion: Correlation, evidence: Evidence, seeds: int) -> CriterionVerdict:
    tables, fewest = evidence.medians(criterion)
    if not tables:
        return CriterionVerdict(criterion, "not run")
    ranked = [table for table in tables if table.shape[1] >= LEAST_RANKED]
    known = [table for table in ranked if all(len(np.unique(side)) > 1 for side in table)]
    correlations = np.array([float(stats.spearmanr(*table).statistic) for table in known])
    lacks = _lacks_seeds(fewest, seeds)
    if not lacks and len(known) < LEAST_SEEDS:
        lacks = f"at least {counted(LEAST_SEEDS, 'workload')} with {LEAST_RANKED} treatments each are needed"
    verdict = judge_correlations(correlations, criterion.at_least)
    if math.isnan(verdict.estimate.value):
        return CriterionVerdict(criterion, "undecided", lacks=lacks)
    return CriterionVerdict(criterion, "undecided" if lacks else verdict.status, (verdict,), lacks)


def judge_correlations(correlations: NDArray[np.float64], at_least: float) -> GroupVerdict:
    verdict = _by_mean(correlations, at_least, "number")
    return replace(verdict, estimate=verdict.estimate.clipped(-1, 1), sample="workload")


def _by_mean(values: NDArray[np.float64], bound: float, form: Form) -> GroupVerdict:
    """Return held if the interval of the mean lies above a bound, and not held if it lies below."""
    mean = mean_estimate(values)
    status: Status = "undecided"
    if side := mean.side(bound):
        status = "held" if side > 0 else "did not hold"
    return GroupVerdict(status, mean, form)


def _by_seeds(
    criterion: _Counted,
    met: NDArray[np.bool_],
    opposed: NDArray[np.bool_],
    values: NDArray[np.float64],
    form: Form = "value",
) -> GroupVerdict:
    """Return the verdict from the seeds that meet a criterion and those that contradict it, shape (seeds,).

    If it is not held, the share ``refuted_at`` refutes it; without a share, a single seed does.
    """
    status: Status = "undecided"
    if is_share(met, 0.0 if criterion.held_at == "any" else criterion.held_at):
        status = "held" if len(met) >= LEAST_SEEDS else "undecided"
    elif is_share(opposed, criterion.refuted_at or 0.0):
        status = "did not hold"
    return GroupVerdict(status, mean_or_median(values), form, agreeing=int(met.sum()))


def is_share(which: NDArray[np.bool_], share: float) -> bool:
    """Return whether at least this share, and at least one, is true; 4 of 5 is a share of 0.8."""
    return int(which.sum()) >= max(1, math.ceil(share * len(which) - 1e-9))


def _within(values: NDArray[np.float64], bounds: Within | Layers | RateRatio) -> NDArray[np.bool_]:
    """Return whether each value lies between the bounds, either of which may be missing; NaN does not."""
    low = -math.inf if bounds.at_least is None else bounds.at_least
    high = math.inf if bounds.at_most is None else bounds.at_most
    return (values >= low) & (values <= high)


def mean_or_median(values: NDArray[np.float64]) -> Estimate:
    """Return a mean with its interval; if a value is not finite the median, without one."""
    if np.isfinite(values).all():
        return mean_estimate(values)
    with np.errstate(invalid="ignore"):
        return Estimate(float(np.median(values)), math.nan, math.nan, len(values))


def _differences(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first - second, NaN where both diverged: how much they differ is unknown."""
    with np.errstate(invalid="ignore"):
        return first - second


def _differences_or_ties(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first - second, 0 where both diverged: neither is better."""
    return np.where(first == second, 0.0, _differences(first, second))


def _half_width(estimate: Estimate, alpha: float) -> float:
    n = estimate.n
    return estimate.half_width / t_multiplier(n) * float(stats.t.isf(alpha / 2, n - 1)) / math.sqrt(n)
