"""Whether the conditions of claims and published numbers can be met by the trials of their suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.arguments import dotted, nearest, show
from initbench.claims.criteria import RateRatio
from initbench.claims.criterion import SCALE
from initbench.claims.layer_criteria import LayerCriterion
from initbench.comparing.conditions import Matcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from initbench.arguments import Key
    from initbench.claims.criterion import Criterion
    from initbench.comparing.conditions import Seen
    from initbench.suite.load import Suite

_PROBE = "probe."


def check_claims(suite: Suite, trials: Sequence[Mapping[str, Any]], seen: Seen, changed: Collection[str]) -> None:
    """Refuse a condition that no trial meets, and one by which several trials at a seed would be one value.

    Args:
        suite: with its claims.
        trials: the properties (`match.properties`) of those of one seed that are not excluded.
        seen: the properties of all trials.
        changed: the kinds (see `match.kind_of`) that the command line has changed: then conditions may have become
            empty, and the report says so.

    Raises:
        SuiteError: where the condition or the measure stands, and what is wrong.
    """
    _check_measures(suite)
    _check_properties(suite, seen)
    for asked in _conditions(suite):
        matcher = Matcher(asked.condition)
        matching = [trial for trial in trials if matcher(trial)]
        if not changed and asked.varies is not None:
            _check_one_at_a_seed(suite, asked, matching)
        if wrong := matcher.problem(seen, changed):
            raise suite.document.error((*asked.key, wrong[0]) if wrong[0] else asked.key, wrong[1])
    if not changed:
        for key, criterion in _criteria(suite):
            _check_spread(suite, key, criterion, trials)


def _check_one_at_a_seed(suite: Suite, asked: _Condition, matching: Sequence[Mapping[str, Any]]) -> None:
    """Refuse trials of one group that differ in more than what may vary."""
    varies = asked.varies or ()
    groups: dict[str, Mapping[str, Any]] = {}
    for trial in matching:
        other = groups.setdefault(repr([trial.get(name) for name in asked.each]), trial)
        one, two = ({key: value for key, value in each.items() if key not in varies} for each in (other, trial))
        if other is not trial and (one != two or not varies):
            problem = f"selects several trials at one seed, which differ in {difference(one, two)}"
            raise suite.document.error(asked.key, problem)


def _check_spread(suite: Suite, key: Key, criterion: Criterion, trials: Sequence[Mapping[str, Any]]) -> None:
    """Refuse more groups than there are, and a ratio of rates where trials have one rate."""
    sides = [Matcher(condition) for condition in criterion.selectors.values()]
    selected = [trial for trial in trials if any(side(trial) for side in sides)]
    if criterion.groups is not None:
        known = len({repr([trial.get(name) for name in criterion.each]) for trial in selected})
        if criterion.groups > known:
            raise suite.document.error((*key, "groups"), f"must be at most {known}: each makes so many groups")
    if isinstance(criterion, RateRatio):
        tuned = suite.document.has(("tune", criterion.rate))  # a smoke run plans no search
        if not tuned and len({trial.get(criterion.rate) for trial in selected}) < 2:
            problem = f"the trials have one value of {dotted((criterion.rate,))}; a ratio needs several"
            raise suite.document.error((*key, "of"), problem)


def _check_properties(suite: Suite, seen: Seen) -> None:
    """Refuse a property that no trial has."""
    for key, criterion in _criteria(suite):
        named: dict[Key, str | None] = {("each", number): name for number, name in enumerate(criterion.each)}
        named["best_over",] = criterion.best_over
        if isinstance(criterion, RateRatio):
            named |= {("rate",): criterion.rate, ("rises_with",): criterion.rises_with}
        for place, name in named.items():
            if name is not None and not seen.of(name):
                problem = f"no trial has {dotted((name,))}{nearest(name, seen.keys())}"
                raise suite.document.error((*key, *place), problem)


def _check_measures(suite: Suite) -> None:
    """Refuse a measure of a probe that the suite does not have; what metrics there are is known of records alone."""
    probes = list(dict.fromkeys(probe.name for probe in suite.probes))
    for key, measure, of_layers in _measures(suite):
        name = re.split(r"[.[]", measure.removeprefix(_PROBE))[0]
        if measure.startswith(_PROBE) and name not in probes:
            raise suite.document.error(key, f"the suite has no probe {dotted((name,))}{nearest(name, probes)}")
        if measure == SCALE and not of_layers:
            raise suite.document.error(key, "is a value for each tensor; judge layers or layer_distance takes these")


def _measures(suite: Suite) -> Iterator[tuple[Key, str, bool]]:
    """Yield where each measure stands, the measure, and whether values per layer are judged."""
    for key, criterion in _criteria(suite):
        yield (*key, "measure"), criterion.measure, isinstance(criterion, LayerCriterion)
    for index, number in enumerate(() if suite.published is None else suite.published.numbers):
        yield ("published", "numbers", index, "measure"), number.measure, False


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first property in which two trials differ, with both values: ``initializer.steps (50, 200)``."""
    for key in [*one, *other]:
        if one.get(key) != other.get(key):
            return f"{key} ({show(one.get(key))}, {show(other.get(key))})"
    return "nothing that a condition can name"


class _Condition(NamedTuple):
    """A condition.

    Attributes:
        key: where it stands.
        condition: on trials.
        each: of what each value it may have a trial.
        varies: in what trials may differ beside; None for anything.
    """

    key: Key
    condition: dict[str, Any]
    each: Sequence[str]
    varies: tuple[str, ...] | None


def _criteria(suite: Suite) -> Iterator[tuple[Key, Criterion]]:
    """Yield where each criterion stands, and the criterion."""
    for index, claim in enumerate(suite.claims):
        for where, place, criterion in claim.all_criteria():
            yield ("claims", index, where, place), criterion


def _conditions(suite: Suite) -> Iterator[_Condition]:
    for key, criterion in _criteria(suite):
        for name, condition in criterion.selectors.items():
            parts = (int(part) if part.isdigit() else part for part in name.split("."))
            yield _Condition((*key, *parts), condition, criterion.each, criterion.varies)
    if suite.published is not None:
        for index, number in enumerate(suite.published.numbers):
            yield _Condition(("published", "numbers", index, "of"), number.of, [], ())
