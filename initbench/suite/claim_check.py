"""Whether the conditions of claims and published numbers can be met by the trials of their suite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from initbench.suite.criteria import Correlation
from initbench.suite.document import dotted
from initbench.suite.match import Matcher
from initbench.validation import nearest, show

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from initbench.suite.document import Key
    from initbench.suite.load import Suite
    from initbench.suite.match import Seen

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
    _check_each(suite, seen)
    for key, condition, each in _conditions(suite):
        matcher = Matcher(condition)
        groups: dict[str, Mapping[str, Any]] = {}
        for trial in trials:
            if not matcher(trial):
                continue
            other = None if each is None else groups.setdefault(repr([trial.get(name) for name in each]), trial)
            if other is not None and other is not trial and not changed:
                problem = f"selects several trials at one seed, which differ in {difference(other, trial)}"
                raise suite.document.error(key, problem)
        if wrong := matcher.problem(seen, changed):
            raise suite.document.error((*key, wrong[0]) if wrong[0] else key, wrong[1])


def _check_each(suite: Suite, seen: Seen) -> None:
    """Refuse a property in ``each`` that no trial has."""
    for index, claim in enumerate(suite.claims):
        for place, criterion in enumerate(claim.criteria):
            for number, name in enumerate(criterion.each):
                if not seen.of(name):
                    problem = f"no trial has {dotted((name,))}{nearest(name, seen.keys())}"
                    raise suite.document.error(("claims", index, "criteria", place, "each", number), problem)


def _check_measures(suite: Suite) -> None:
    """Refuse a measure of a probe that the suite does not have; what metrics there are is known of records alone."""
    probes = list(dict.fromkeys(probe.name for probe in suite.probes))
    for key, measure in _measures(suite):
        name = re.split(r"[.[]", measure.removeprefix(_PROBE))[0]
        if measure.startswith(_PROBE) and name not in probes:
            raise suite.document.error(key, f"the suite has no probe {dotted((name,))}{nearest(name, probes)}")


def _measures(suite: Suite) -> Iterator[tuple[Key, str]]:
    """Yield where each measure stands, and the measure."""
    for index, claim in enumerate(suite.claims):
        for place, criterion in enumerate(claim.criteria):
            yield ("claims", index, "criteria", place, "measure"), criterion.measure
    for index, number in enumerate(() if suite.published is None else suite.published.numbers):
        yield ("published", "numbers", index, "measure"), number.measure


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Return the first property in which two trials differ, with both values: ``initializer.steps (50, 200)``."""
    for key in [*one, *other]:
        if one.get(key) != other.get(key):
            return f"{key} ({show(one.get(key))}, {show(other.get(key))})"
    return "nothing that a condition can name"


def _conditions(suite: Suite) -> Iterator[tuple[Key, dict[str, Any], Sequence[str] | None]]:
    """Yield where each condition stands, the condition, and of what each value may have a trial; None for any."""
    for index, claim in enumerate(suite.claims):
        for place, criterion in enumerate(claim.criteria):
            each = None if isinstance(criterion, Correlation) else criterion.each
            for name, condition in criterion.selectors.items():
                parts = (int(part) if part.isdigit() else part for part in name.split("."))
                yield ("claims", index, "criteria", place, *parts), condition, each
    if suite.published is not None:
        for index, number in enumerate(suite.published.numbers):
            yield ("published", "numbers", index, "of"), number.of, []
