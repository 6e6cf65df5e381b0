"""The plan: every trial of a suite, and the pairs that cannot run with the reason. Pure: nothing is read or written."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import SuiteError
from initbench.suite.compatibility import Compatibility
from initbench.suite.document import Key, dotted
from initbench.suite.load import MOST_TRIALS, initializers_of
from initbench.suite.match import Matcher, Seen, parse_only, properties
from initbench.suite.schema import Entry, recipe_of
from initbench.suite.spec import TrialSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.suite.load import Choice, Suite
    from initbench.suite.spec import ComponentSpec


@dataclass(frozen=True)
class Incompatible:
    """A pair that cannot run.

    Attributes:
        spec: its trial at the first seed.
        reason: why, in one line.
    """

    spec: TrialSpec
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a suite comes to.

    Attributes:
        trials: what runs, in the order of the file, all cells at the first seed before the second seed.
        incompatible: the cells that cannot run.
        excluded: how many trials ``exclude`` left out.
        unselected: the trials of the suite that ``only`` left out; labels tell trials apart from these too.
    """

    trials: tuple[TrialSpec, ...]
    incompatible: tuple[Incompatible, ...]
    excluded: int
    unselected: tuple[TrialSpec, ...]

    def missing(self, statuses: Mapping[str, str]) -> tuple[TrialSpec, ...]:
        """Return the trials without a result; a failed one is tried again.

        Args:
            statuses: trial id → status, as the ledger has them.
        """
        return tuple(t for t in self.trials if statuses.get(t.id) not in {"finished", "diverged"})


def plan(suite: Suite, only: Iterable[str] = ()) -> Plan:
    """Return the plan of a suite.

    Args:
        suite: checked by `load_suite`.
        only: ``KEY=VALUE,VALUE`` filters; a trial must meet all of them.

    Raises:
        SuiteError: a rule, ``exclude`` or filter that no trial meets; a rule or an argument that the component
            refuses; two entries or rules that make the same trial.
    """
    options = list(only)
    rules = [Matcher(rule.when) for rule in suite.rules]
    exclude = [Matcher(condition) for condition in suite.exclude]
    filters = [Matcher(parse_only(option)) for option in options]
    compatibility = Compatibility(suite.document)
    seen = Seen()
    once = _Once(suite)
    trials: list[TrialSpec] = []
    unselected: list[TrialSpec] = []
    incompatible: list[Incompatible] = []
    excluded = 0
    cells = list(itertools.product(suite.datasets, suite.architectures, suite.recipes, suite.initializers))
    if len(cells) * len(suite.seeds) > MOST_TRIALS:
        raise suite.document.error((), f"comes to more than {MOST_TRIALS} trials")
    for seed in suite.seeds:
        for dataset, architecture, recipe, initializer in cells:
            spec = _spec(suite, dataset, architecture, recipe, initializer, seed)
            seen.add(properties(spec))
            spec = _with_rules(suite, rules, spec, recipe)
            found = properties(spec)
            seen.add(found)
            met = [condition(found) for condition in exclude]  # each is asked, to know whether it is ever met
            if any(met):
                excluded += 1
                continue
            meets = [condition(found) for condition in filters]
            reason = compatibility.reason(dataset, architecture, initializer, spec.scheme, spec.recipe)
            if reason is not None:
                if all(meets) and seed == suite.seeds[0]:
                    incompatible.append(Incompatible(spec, reason))
                continue
            once.add(spec, architecture, initializer)
            (trials if all(meets) else unselected).append(spec)
    _check_conditions(suite, rules, exclude, seen)
    _check_filters(options, filters, seen)
    if not trials and not incompatible:
        if not unselected:
            raise suite.document.error(("exclude",), "leaves no trial")
        raise SuiteError(f"{' '.join(f'--only {option}' for option in options)}: no trial meets all of them")
    return Plan(tuple(trials), tuple(incompatible), excluded, tuple(unselected))


def _spec(
    suite: Suite, dataset: Choice, architecture: Choice, recipe: dict[str, Any], initializer: Choice, seed: int
) -> TrialSpec:
    """Return one trial before the rules."""
    return TrialSpec(
        suite=suite.name,
        architecture=architecture.spec,
        scheme=architecture.scheme or initializer.scheme or "standard",
        initializer=initializer.spec,
        dataset=dataset.spec,
        recipe=recipe_of(suite.document, recipe, ("recipe",)),
        probes=suite.probes,
        seed=seed,
    )


def _with_rules(suite: Suite, rules: list[Matcher], spec: TrialSpec, recipe: dict[str, Any]) -> TrialSpec:
    """Return the trial with the rules applied in their order; each is matched against the trial before all of them."""
    found = properties(spec)
    initializer = spec.initializer
    set_by_rules: set[str] = set()
    for index, (matcher, rule) in enumerate(zip(rules, suite.rules, strict=True)):
        if not matcher(found):
            continue
        key = ("rules", index)
        if rule.recipe:
            recipe = {**recipe, **rule.recipe}
            spec = spec.model_copy(update={"recipe": recipe_of(suite.document, recipe, (*key, "recipe"))})
        if rule.initializer:
            initializer = _changed(suite, initializer, rule.initializer, (*key, "initializer"))
        set_by_rules |= {f"recipe.{name}" for name in rule.recipe}
        set_by_rules |= {f"initializer.{name}" for name in rule.initializer}
    return spec.model_copy(update={"initializer": initializer, "set_by_rules": tuple(sorted(set_by_rules))})


def _changed(suite: Suite, initializer: ComponentSpec, values: dict[str, Any], key: Key) -> ComponentSpec:
    """Return an initializer with the values that a rule sets."""
    before: dict[str, Any] = dict(initializer.arguments)
    if initializer.batch_size is not None:
        base = initializer.base
        before |= {"base": base and {"name": base.name, **base.arguments}, "batch_size": initializer.batch_size}
    try:
        changed = initializers_of(suite.document, Entry(name=initializer.name, **(before | values)), key)
    except SuiteError as error:
        raise SuiteError(f"{error}; the rule matches {initializer.name}") from error
    if len(changed) > 1:
        raise suite.document.error(key, "a rule sets one value of each argument; initializers alone are crossed")
    return changed[0].spec


def _check_conditions(suite: Suite, rules: list[Matcher], exclude: list[Matcher], seen: Seen) -> None:
    """Refuse conditions that are never met: they are misspelled."""
    changed = {str(key[0]).rstrip("s") for key in suite.document.overrides}
    conditions: list[tuple[Key, Matcher]] = [(("rules", index, "when"), rule) for index, rule in enumerate(rules)]
    conditions += [(("exclude", index), condition) for index, condition in enumerate(exclude)]
    for key, matcher in conditions:
        problem = matcher.problem(seen, changed)
        if problem:
            raise suite.document.error((*key, problem[0]) if problem[0] else key, problem[1])


def _check_filters(options: list[str], filters: list[Matcher], seen: Seen) -> None:
    for option, matcher in zip(options, filters, strict=True):
        problem = matcher.problem(seen)
        if problem:
            raise SuiteError(f"--only {option}: {': '.join(filter(None, problem))}")


class _Once:
    """Refuses a trial that is planned twice; the message names both places."""

    def __init__(self, suite: Suite) -> None:
        self.document = suite.document
        self.places: dict[str, tuple[Choice, Choice]] = {}

    def add(self, spec: TrialSpec, architecture: Choice, initializer: Choice) -> None:
        """Take in a trial."""
        if spec.id not in self.places:
            self.places[spec.id] = (architecture, initializer)
            return
        first = self.places[spec.id]
        for choice, other in zip((architecture, initializer), first, strict=True):
            if choice is not other:
                message = f"comes to the same trial as {dotted(other.key)} (defaults and rules applied)"
                raise self.document.error(choice.key, message)
        raise self.document.error(("recipe",), "two of its combinations come to the same trial")
