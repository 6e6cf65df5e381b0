"""Whether a suite's trials can meet the conditions of claims and published numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from initbench.arguments import dotted, nearest, show
from initbench.claims.criteria import SCALE, LayerCriterion, RateRatio
from initbench.comparing.conditions import Matcher

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from initbench.arguments import Key
    from initbench.claims.claim import Claim, Published, PublishedValue
    from initbench.claims.criteria import Criterion
    from initbench.comparing.conditions import Seen

_PROBE = "probe."
Problem = tuple["Key", str]
"""A key of a suite file, and the error there."""


def check_claims(
    claims: Sequence[Claim],
    published: Published | None,
    trials: Sequence[Mapping[str, Any]],
    seen: Seen,
    *,
    probes: Sequence[str],
    tuned: Collection[str],
    changed: Collection[str],
) -> Iterator[Problem]:
    """Yield each condition that no trial meets, or that gives several trials for one value at a seed.

    Args:
        claims: of a suite.
        published: likewise.
        trials: the properties (`conditions.properties`) of the trials of one seed that are not excluded.
        seen: the properties of all trials.
        probes: the names of the suite's probes.
        tuned: the keys that the suite tunes.
        changed: the kinds (`conditions.kind_of`) that the command line has changed: conditions on them may be empty,
            which the report says.
    """
    criteria: list[tuple[Key, Criterion]] = [
        (("claims", index, *key), criterion)
        for index, claim in enumerate(claims)
        for key, criterion in claim.all_criteria()
    ]
    numbers: list[tuple[Key, PublishedValue]] = [
        (("published", "numbers", index), number) for index, number in enumerate(published.numbers if published else ())
    ]
    measured: list[tuple[Key, Criterion | PublishedValue]] = [*criteria, *numbers]
    for key, one in measured:
        yield from _wrong_measure((*key, "measure"), one.measure, isinstance(one, LayerCriterion), probes)
    for key, criterion in criteria:
        yield from _unknown_properties(key, criterion, seen)
    conditions = [
        ((*key, *path), condition, criterion.each, criterion.varies)
        for key, criterion in criteria
        for path, condition in criterion.selectors.items()
    ]
    conditions += [((*key, "of"), number.of, [], ()) for key, number in numbers]
    for key, condition, each, varies in conditions:
        matcher = Matcher(condition)
        matching = [trial for trial in trials if matcher(trial)]
        if not changed and varies is not None:
            yield from _several_at_a_seed(key, matching, each, varies)
        if wrong := matcher.problem(seen, changed):
            yield ((*key, wrong[0]) if wrong[0] else key), wrong[1]
    for key, criterion in criteria if not changed else ():
        yield from _too_few(key, criterion, trials, tuned)


def _wrong_measure(key: Key, measure: str, of_layers: bool, probes: Sequence[str]) -> Iterator[Problem]:
    # Only records know which metrics there are.
    name = re.split(r"[.[]", measure.removeprefix(_PROBE))[0]
    if measure.startswith(_PROBE) and name not in probes:
        yield key, f"the suite has no probe {dotted((name,))}{nearest(name, probes)}"
    if measure == SCALE and not of_layers:
        yield key, "is a value for each tensor; judge layers or layer_distance takes these"


def _unknown_properties(key: Key, criterion: Criterion, seen: Seen) -> Iterator[Problem]:
    named: dict[Key, str | None] = {("each", number): name for number, name in enumerate(criterion.each)}
    named["best_over",] = criterion.best_over
    if isinstance(criterion, RateRatio):
        named |= {("rate",): criterion.rate, ("rises_with",): criterion.rises_with}
    for path, name in named.items():
        if name is not None and not seen.knows(name):
            yield (*key, *path), f"no trial has {dotted((name,))}{nearest(name, seen.keys())}"


def _several_at_a_seed(
    key: Key, trials: Sequence[Mapping[str, Any]], each: Sequence[str], varies: Collection[str]
) -> Iterator[Problem]:
    """Yield an error if trials of one group differ in more than the properties that may vary."""
    groups: dict[str, Mapping[str, Any]] = {}
    for trial in trials:
        other = groups.setdefault(repr([trial.get(name) for name in each]), trial)
        one, two = ({name: value for name, value in of.items() if name not in varies} for of in (other, trial))
        if other is not trial and (one != two or not varies):
            yield key, f"selects several trials at one seed, which differ in {difference(one, two)}"


def _too_few(
    key: Key, criterion: Criterion, trials: Sequence[Mapping[str, Any]], tuned: Collection[str]
) -> Iterator[Problem]:
    """Yield an error if a criterion asks for more groups than there are, or for a ratio of rates with only one rate."""
    sides = [Matcher(condition) for condition in criterion.selectors.values()]
    selected = [trial for trial in trials if any(side(trial) for side in sides)]
    if criterion.groups is not None:
        known = len({repr([trial.get(name) for name in criterion.each]) for trial in selected})
        if criterion.groups > known:
            yield (*key, "groups"), f"must be at most {known}, the number of groups that the key each makes"
    if isinstance(criterion, RateRatio) and criterion.rate not in tuned:
        rates = {trial.get(criterion.rate) for trial in selected}
        if len(rates) < 2:
            yield (*key, "of"), f"the trials have one value of {dotted((criterion.rate,))}; a ratio needs several"


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first property in which two trials differ, with both values: ``initializer.steps (50, 200)``."""
    for key in [*one, *other]:
        if one.get(key) != other.get(key):
            return f"{key} ({show(one.get(key))}, {show(other.get(key))})"
    return "nothing that a condition can name"
