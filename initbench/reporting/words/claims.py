"""Claims in words: what a criterion says, what was measured, and what came of all of them."""

from __future__ import annotations

import json
import math
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from initbench.reporting.formatting import counted, quotient
from initbench.reporting.words.sentence import Sentence, first_fitting
from initbench.reporting.words.sizes import difference_words, interval_words, plain_words
from initbench.suite.criteria import (
    AtChance,
    Correlation,
    Criterion,
    Equality,
    Lead,
    NotWorse,
    Ordering,
    Trains,
    Within,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from initbench.metric import Metric
    from initbench.reporting.judging.verdict import ClaimVerdict, CriterionVerdict, GroupVerdict

_COMPONENTS = ("architecture", "initializer", "dataset", "scheme")
_ORDER = ("held", "did not hold", "undecided", "not run")


def overall_words(verdicts: Sequence[ClaimVerdict]) -> list[Sentence]:
    """Return how many claims held, and how many would by chance.

    Args:
        verdicts: of all claims of a report.
    """
    counts = {status: sum(one.status == status for one in verdicts) for status in _ORDER}
    parts = [f"{number} {status}" for status, number in counts.items() if number]
    text = f"Of {counted(len(verdicts), 'claim')} {', '.join(parts)}."
    judged = [one for one in verdicts if one.status in _ORDER[:3]]
    expected = sum(one.chance for one in judged)
    said = [Sentence(text, bold=(parts[0],))]
    if judged:
        least = "fewer than 0.01" if expected < 0.01 else f"at most {expected:.2g}"
        said.append(Sentence(f"If none of them were true, {least} would have come out as held by chance."))
    return said


def claim_words(verdict: ClaimVerdict, metrics: Sequence[Metric | None]) -> list[Sentence]:
    """Return what became of one claim, which is their subject: its status, then each criterion with its numbers.

    Args:
        verdict: of the claim.
        metrics: that the measures of its criteria are; None for one that is none.
    """
    status = verdict.status.capitalize()
    found = [Sentence(f"{status}.", bold=(status,), subject=verdict.claim.claim)]
    for criterion, metric in zip(verdict.criteria, metrics, strict=True):
        groups = [_group_words(group, metric) for group in criterion.groups]
        if not groups and not criterion.lacks:
            continue
        own = criterion.status.capitalize() if len(verdict.criteria) > 1 else "Measured"
        few = [f"{own}: {'; '.join(groups[:k])}{_more(len(groups) - k)}." for k in range(len(groups), 0, -1)]
        text = first_fitting(*few) if few else f"{own}."
        found.append(Sentence(text, subject=verdict.claim.claim, is_open=criterion.status == "undecided"))
        if criterion.lacks:
            found.append(Sentence(f"{criterion.lacks}.", subject=verdict.claim.claim, is_open=True))
    return found


def _more(left: int) -> str:
    return f"; and {left} more" if left else ""


def measured_words(verdict: CriterionVerdict, metric: Metric | None) -> str:
    """Return what was measured for a criterion, each group with its interval and its seeds.

    Args:
        verdict: of the criterion.
        metric: that its measure is; None for one that is none.
    """
    texts = [_group_words(group, metric) for group in verdict.groups]
    return "; ".join([*texts, *[verdict.lacks] * bool(verdict.lacks)])


def _group_words(group: GroupVerdict, metric: Metric | None) -> str:
    value, low, high, n = group.estimate
    if group.is_ratio:
        size = f"{plain_words(group.estimate)} times"
    elif metric is None:
        size = interval_words(
            quotient(value), *(quotient(end) if group.estimate.has_interval else "" for end in (low, high))
        )
    elif group.is_difference:
        size = difference_words(group.estimate, metric) if math.isfinite(value) else "one of the two diverged"
    else:
        ends = (metric.number(end) if group.estimate.has_interval else "" for end in (low, high))
        size = interval_words(metric.text(value) if math.isfinite(value) else "diverged", *ends)
    seeds = counted(n, "seed") if group.agreeing is None else f"{group.agreeing} of {counted(n, 'seed')}"
    return f"{group.label + ': ' if group.label else ''}{size}, {seeds}"


@singledispatch
def criterion_words(criterion: Criterion, metric: Metric | None) -> str:
    """Return what a criterion says, as a sentence without its full stop.

    Args:
        criterion: of a claim.
        metric: that its measure is; None for one that is none.
    """
    del metric
    raise TypeError(type(criterion).__name__)


@criterion_words.register(Ordering)
def _(criterion: Ordering, metric: Metric | None) -> str:
    (lower, higher), where = _sides(criterion.lower, criterion.higher)
    how = f" by more than {_size(criterion.by, metric)}" if criterion.by else ""
    how += f" by a factor of {criterion.factor:g} or more" if criterion.factor > 1 else ""
    return f"At every seed {lower} has a lower {_measure(criterion, metric)} than {higher}{how}{where}"


@criterion_words.register(Lead)
def _(criterion: Lead, metric: Metric | None) -> str:
    (lower, higher), where = _sides(criterion.lower, criterion.higher)
    how = f" by more than {_size(criterion.by, metric)}" if criterion.by else ""
    text = f"In the mean {lower} has a lower {_measure(criterion, metric)} than {higher}{how}{where}"
    if criterion.beyond is not None:
        (first, second), there = _sides(criterion.beyond.lower, criterion.beyond.higher)
        text += f", by more than {first} leads {second}{there}"
    return text


@criterion_words.register(Equality)
def _(criterion: Equality, metric: Metric | None) -> str:
    (one, other), where = _sides(*criterion.between)
    margin = criterion.within
    size = f"a factor of {criterion.within_factor:g}" if margin is None else _size(margin, metric)
    return f"{one} and {other} have the same {_measure(criterion, metric)} within {size}{where}"


@criterion_words.register(NotWorse)
def _(criterion: NotWorse, metric: Metric | None) -> str:
    (one, other), where = _sides(criterion.of, criterion.than)
    most = f"{_size(criterion.within, metric)} of {_measure(criterion, metric)}"
    return f"{one} is worse than {other} by no more than {most}{where}"


@criterion_words.register(Trains)
def _(criterion: Trains, metric: Metric | None) -> str:
    bound = _bound(criterion.at_most, metric)
    return f"{_side(criterion.of)} trains: {_measure(criterion, metric)} of at most {bound} at every seed"


@criterion_words.register(AtChance)
def _(criterion: AtChance, metric: Metric | None) -> str:
    del metric
    return f"{_side(criterion.of)} is at chance at every seed"


@criterion_words.register(Within)
def _(criterion: Within, metric: Metric | None) -> str:
    ends = (("least", criterion.at_least), ("most", criterion.at_most))
    bounds = [f"at {end} {_bound(bound, metric)}" for end, bound in ends if bound is not None]
    return f"{_measure(criterion, metric)} of {_side(criterion.of)} is {' and '.join(bounds)} at every seed"


@criterion_words.register(Correlation)
def _(criterion: Correlation, metric: Metric | None) -> str:
    del metric
    what = f"a rank correlation above {criterion.at_least:g}"
    return f"{_measure(criterion, None)} and the outcome have {what} over {_side(criterion.of)}"


def _measure(criterion: Criterion, metric: Metric | None) -> str:
    if metric is not None:
        return metric.title
    return criterion.measure.removeprefix("probe.").replace("_", " ")


def _bound(value: float, metric: Metric | None) -> str:
    return f"{value:g}" if metric is None else metric.text(value)


def _size(value: float, metric: Metric | None) -> str:
    return f"{value:g}" if metric is None else metric.difference(value)


def _sides(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[tuple[str, str], str]:
    """Return what tells two conditions apart, and what both have, as an ending of a sentence."""
    same = {key: value for key, value in one.items() if other.get(key) == value}
    sides = [{k: v for k, v in side.items() if k not in same} or side for side in (one, other)]
    return (_side(sides[0]), _side(sides[1])), f", with {_side(same)}" if same else ""


def _side(condition: Mapping[str, Any]) -> str:
    return ", ".join(_property(key, value) for key, value in condition.items())


def _property(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if key in _COMPONENTS else f"{key.rpartition('.')[2]} {text}"
