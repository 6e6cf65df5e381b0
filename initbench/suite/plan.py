"""From a suite to its plan: a table of trials, made by passes from rows to rows. Nothing is read or written."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from initbench.arguments import Key, dotted, show
from initbench.claims.check import check_claims
from initbench.comparing.conditions import Matcher, Seen
from initbench.comparing.labels import component_labels
from initbench.errors import SuiteError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, SCHEMES, Component, Registry
from initbench.suite.compatible import Compatibility
from initbench.suite.document import Origin
from initbench.suite.load import Suite
from initbench.suite.overrides import parse_only
from initbench.suite.part import MOST_TRIALS, Part, Parts, RecipePart, Row, recipe_of
from initbench.suite.spec import DatasetSpec, TrialSpec
from initbench.suite.tuning import Searched, Tries, TunedTrial, search

_KINDS = {
    "architectures": "architecture",
    "initializers": "initializer",
    "dataset": "dataset",
    "recipe": "recipe",
    "seeds": "seed",
}
"""Section of a suite → its name in conditions, see `initbench.comparing.conditions.kind_of`."""
_REGISTRIES: dict[str, Registry[Any]] = {
    "architecture": ARCHITECTURES,
    "initializer": INITIALIZERS,
    "dataset": DATASETS,
}
_MOST_REASONS = 5


@dataclass(frozen=True)
class Plan:
    """The plan of a suite.

    Attributes:
        rows: all trials; those that run are in the order of the file, all cells at the first seed before the second
            seed.
        refused: each cell that cannot run, also if ``--only`` leaves it out, at its first seed and with its first
            reason. A pair that is refused for every initializer is here with every initializer.
        tuned: if the suite tunes, the searches and final trials of each seed of each cell that runs.
    """

    rows: tuple[Row, ...]
    refused: tuple[Row, ...] = ()
    tuned: tuple[TunedTrial, ...] = ()

    @cached_property
    def trials(self) -> tuple[TrialSpec, ...]:
        return tuple(row.spec for row in self.rows if row.status == "run")

    @cached_property
    def unselected(self) -> tuple[TrialSpec, ...]:
        """The trials that ``--only`` left out; they count for labels."""
        return tuple(row.spec for row in self.rows if row.status == "unselected" and row.spec.id)

    @cached_property
    def waiting(self) -> dict[Part, list[Row]]:
        """The rows that wait for the files of a dataset, by dataset."""
        waiting: dict[Part, list[Row]] = {}
        for row in self.rows:
            if row.status == "waiting":
                waiting.setdefault(row.parts.dataset, []).append(row)
        return waiting

    @cached_property
    def incompatible(self) -> tuple[Row, ...]:
        """The pairs that cannot run, each with each reason once: the other trials of it are the same pair."""
        pairs: dict[tuple[Any, ...], Row] = {}
        for row in self.rows:
            if row.status == "incompatible":
                blamed = {"initializer": row.spec.initializer.model_dump_json(), "dataset": row.parts.dataset}
                other = None if row.blames is None else blamed[row.blames]
                pairs.setdefault((row.parts.architecture, row.spec.scheme, other, row.reason), row)
        return tuple(pairs.values())

    @property
    def excluded(self) -> int:
        return sum(row.status == "excluded" for row in self.rows)

    @property
    def awaited(self) -> int:
        """The number of final trials that are unknown until searches have results; equal ones count separately."""
        return sum(len(trial.awaited) for trial in self.tuned)

    @property
    def reasons(self) -> str:
        """The reasons why pairs cannot run, each once, in one line."""
        reasons = [*dict.fromkeys(row.reason for row in self.incompatible)]
        more = len(reasons) - _MOST_REASONS
        return "; ".join([*reasons[:_MOST_REASONS], *[f"and {more} more"] * (more > 0)])

    def missing(self, statuses: Mapping[str, str]) -> tuple[TrialSpec, ...]:
        """Return the trials that have no result by their status in the ledger; failed ones are tried again."""
        return tuple(t for t in self.trials if statuses.get(t.id) not in {"finished", "diverged"})


def plan(
    suite: Suite,
    only: Iterable[str] = (),
    *,
    descriptions: Sequence[Part],
    results: Mapping[str, Searched] | None = None,
) -> Plan:
    """Return the plan of a suite.

    It raises a SuiteError for a rule, ``exclude`` or filter that no trial meets, an architecture that supports none of
    the tasks, a rule or an argument that the component refuses, and two entries or rules that make the same trial.

    Args:
        suite: checked by `load_suite`.
        only: ``KEY=VALUE,VALUE`` filters; a trial must meet all of them. Tuned keys have the value as written.
        descriptions: the suite's datasets, as `initbench.suite.load.describe_datasets` returns them.
        results: if the suite tunes, the results of search trials by id, on which the final trials depend.
    """
    written = _cross(suite, descriptions)
    filters = [(option, parse_only(option)) for option in only]
    ruled = _rules(suite, written)
    selected = _select(ruled, suite.exclude, [condition for _, condition in filters])
    compatibility = Compatibility()
    rows = [compatibility.check(row) for row in selected]
    tries = None if suite.search is None else Tries(suite.document, suite.search, suite.seeds[0])
    if tries is not None:
        rows = [_with_tries(row, tries, compatibility) for row in rows]
    rows = _once(suite, rows)
    if filters or suite.rules or suite.exclude or suite.claims or suite.published:
        _check_conditions(suite, written, selected, filters)
    if all(row.status in {"excluded", "unselected"} for row in rows):
        if not any(row.status == "unselected" and not row.reason for row in rows):
            raise suite.document.error(("exclude",), "leaves no trial")
        raise SuiteError("no trial meets all of them", " ".join(f"--only {option}" for option, _ in filters))
    refused: dict[str, Row] = {}
    for row in rows:
        if row.reason:
            refused.setdefault(row.spec.model_dump_json(exclude={"seed"}), row)
    if tries is None:
        return Plan(tuple(rows), tuple(refused.values()))
    described = sorted((row for row in rows if row.spec.id), key=lambda row: row.status)  # rows that run come first
    trials, tuned = search(described, tries, suite.compare, results or {})
    others = (row for row in rows if not row.spec.id)
    return Plan((*trials, *others), tuple(refused.values()), tuned)


def _cross(suite: Suite, datasets: Sequence[Part]) -> list[Row]:
    """Return a row for each combination of parts and seeds, as the suite writes them."""
    tasks = [part.component.traits.task if part.described is None else part.described.task for part in datasets]
    for architecture in suite.architectures:
        serves = architecture.component.traits.tasks
        if set(serves).isdisjoint(tasks):
            others = " and ".join(dict.fromkeys(tasks))
            problem = f"{architecture.spec.name} serves {' and '.join(serves)}, the data of the suite are for {others}"
            raise architecture.origin.error(problem)
    cells = list(
        itertools.starmap(Parts, itertools.product(datasets, suite.architectures, suite.recipes, suite.initializers))
    )
    each = 1 if suite.search is None else suite.search.tries + len(suite.search.protocols)
    if len(cells) * len(suite.seeds) * each > MOST_TRIALS:
        raise suite.document.error((), f"gives more than {MOST_TRIALS} trials")
    undescribed = {part: DatasetSpec(**dict(part.spec)) for part in datasets}
    names = {part.spec.name for part in suite.initializers}
    tuned = {name: () if suite.search is None else suite.search.keys(name) for name in names}
    return [
        Row(
            TrialSpec(
                suite=suite.name,
                architecture=parts.architecture.spec,
                initializer=parts.initializer.spec,
                dataset=undescribed[parts.dataset],
                recipe=parts.recipe.recipe,
                probes=suite.probes,
                seed=seed,
                tuned=tuned[parts.initializer.spec.name],
                **_scheme(parts),
            ),
            parts,
        )
        for seed in suite.seeds
        for parts in cells
    ]


def _scheme(parts: Parts) -> dict[str, Any]:
    """Return the scheme of a trial and who names it."""
    asked, needed = parts.architecture.scheme, parts.initializer.scheme
    if asked is None and needed is not None:
        return {"scheme": needed, "scheme_named_by": ("initializer",)}
    arguments = dict(parts.architecture.scheme_arguments)
    return {"scheme": asked or "standard", "scheme_arguments": arguments, "scheme_named_by": ("suite",)}


def _rules(suite: Suite, rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the rules applied in order; each rule is matched against the trial before all of them."""
    conditions = [Matcher(rule.when) for rule in suite.rules]

    @cache
    def changed_recipe(part: RecipePart, met: tuple[int, ...]) -> RecipePart:
        for index in met:
            if values := suite.rules[index].recipe:
                fields = {**part.fields, **values}
                part = RecipePart(fields, recipe_of(suite.document, fields, ("rules", index, "recipe")))
        return part

    @cache
    def changed_initializer(part: Part, met: tuple[int, ...]) -> Part:
        for index in met:
            if values := suite.rules[index].initializer:
                part = _changed(part, values, Origin(suite.document, ("rules", index, "initializer")))
        return part

    def ruled(row: Row) -> Row:
        properties = row.properties
        met = tuple(index for index, condition in enumerate(conditions) if condition(properties))
        if not met:
            return row
        recipe, initializer = changed_recipe(row.parts.recipe, met), changed_initializer(row.parts.initializer, met)
        parts = row.parts._replace(recipe=recipe, initializer=initializer)
        keys = {f"recipe.{name}" for index in met for name in suite.rules[index].recipe}
        keys |= {f"initializer.{name}" for index in met for name in suite.rules[index].initializer}
        update = {"recipe": recipe.recipe, "initializer": initializer.spec, "set_by_rules": tuple(sorted(keys))}
        return replace(row, spec=row.spec.model_copy(update=update | _scheme(parts)), parts=parts)

    return [ruled(row) for row in rows] if conditions else list(rows)


def _changed(part: Part, values: Mapping[str, Any], origin: Origin) -> Part:
    for name, value in values.items():
        if isinstance(value, list) and not part.component.takes_a_list(name):
            raise origin.document.error((*origin.key, name), f"a rule sets one value, got {show(value)}")
    try:
        return part.changed(values, origin)
    except SuiteError as error:
        problem = f"{error.problem}; the rule matches {part.spec.name}"
        raise SuiteError(problem, error.where, error.line, error.key) from error


def _select(rows: Iterable[Row], exclude: Iterable[dict[str, Any]], only: Iterable[dict[str, Any]]) -> list[Row]:
    """Return the rows, with a status for those that the suite excludes or the command line does not select."""
    excluding, selecting = [Matcher(condition) for condition in exclude], [Matcher(condition) for condition in only]
    if not excluding and not selecting:
        return list(rows)

    def selected(row: Row) -> Row:
        properties = row.properties
        if any(matcher(properties) for matcher in excluding):
            return replace(row, status="excluded")
        return row if all(matcher(properties) for matcher in selecting) else replace(row, status="unselected")

    return [selected(row) for row in rows]


def _with_tries(row: Row, tries: Tries, compatibility: Compatibility) -> Row:
    """Return a row with the tries of its search; if a cell cannot run a try, it runs none."""
    if row.status == "excluded" or row.reason:
        return row
    made = tries.of(row)
    refused = next((one for one in map(compatibility.check, made) if one.reason), None)
    if refused is not None:
        return replace(row, status=refused.status, reason=refused.reason, blames=refused.blames)
    return replace(row, tries=made)


def _once(suite: Suite, rows: Iterable[Row]) -> list[Row]:
    """Return each trial once, with its dataset described if that is known.

    A trial whose scheme both the suite and an initializer ask for is kept once.
    """
    once: dict[str | int, Row] = {}
    for number, row in enumerate(rows):
        dataset = row.parts.dataset
        if row.status == "excluded" or row.reason:
            once[number] = row
        elif dataset.absent is not None:
            once[number] = replace(row, status="waiting") if row.status == "run" else row
        else:
            spec = row.spec.model_copy(update={"dataset": dataset.described})
            known = once.setdefault(spec.id, replace(row, spec=spec))
            if known.spec is spec:
                continue
            named_by = {*known.spec.scheme_named_by, *spec.scheme_named_by}
            if len(named_by) == len(known.spec.scheme_named_by):
                raise _same_trial(suite, row, known)
            both = known.spec.model_copy(update={"scheme_named_by": tuple(sorted(named_by))})
            once[spec.id] = replace(known, spec=both)
    return list(once.values())


def _same_trial(suite: Suite, row: Row, other: Row) -> SuiteError:
    """Return the error that two entries make the same trial, with the labels that differ, and why they do."""
    set_by_rules = {*row.spec.set_by_rules}
    for name in ("dataset", "architecture", "initializer"):
        part, first = (_as_written(getattr(each.parts, name)) for each in (row, other))
        if part is first:
            continue
        labels = component_labels([part.spec.model_dump(), first.spec.model_dump()])
        if labels[0] == labels[1]:
            problem = f"gives the same trial as {dotted(first.origin.key)} (defaults and rules applied)"
        else:
            mine, its = part.spec.arguments, first.spec.arguments
            differ = {f"initializer.{key}" for key in {*mine, *its} if mine.get(key) != its.get(key)}
            where = "" if part.origin.key == first.origin.key else f" of {dotted(first.origin.key)}"
            why = _which_rules(suite, differ & set_by_rules)
            problem = f"{labels[0]} gives the same trial as {labels[1]}{where}{why}"
        return part.origin.error(problem)
    asked = suite.document.data.get("recipe", {})
    crossed = {f"recipe.{name}" for name, value in asked.items() if isinstance(value, list)}
    why = _which_rules(suite, crossed & set_by_rules)
    return suite.document.error(("recipe",), f"two of its combinations give the same trial{why}")


def _as_written(part: Part) -> Part:
    return part.written or part


def _which_rules(suite: Suite, keys: Iterable[str]) -> str:
    """Return which rules set these keys (``recipe.lr``), as the end of a sentence; empty if none does."""
    parts = []
    for key in sorted(keys):
        kind, _, name = key.partition(".")
        setting = [dotted(("rules", index)) for index, rule in enumerate(suite.rules) if name in getattr(rule, kind)]
        parts.append(f"{' or '.join(setting)} sets {key}")
    return f": {', '.join(parts)}" if parts else ""


def _check_conditions(
    suite: Suite, written: Sequence[Row], selected: Sequence[Row], filters: Sequence[tuple[str, dict[str, Any]]]
) -> None:
    """Refuse conditions that no row meets, because they are misspelled.

    Rules are matched against the rows as written; `selected` are the same rows after the rules. `filters` are the
    options of the command line, with their conditions.
    """
    seen, known = Seen(), set[Any]()
    for row in itertools.chain.from_iterable(zip(written, selected, strict=True)):
        of = {*row.parts, ("scheme", row.spec.scheme), ("seed", row.spec.seed)}
        if not of <= known:
            seen.add(row.properties)
            known |= of
    changed = {_KINDS[str(key[0])] for key in suite.document.overrides if key[0] in _KINDS}
    for argument in _arguments(changed):  # conditions may name those of components that the command line removed
        seen.know(argument)
    conditions: list[tuple[Key, dict[str, Any], Sequence[Row]]]
    conditions = [(("rules", index, "when"), rule.when, written) for index, rule in enumerate(suite.rules)]
    conditions += [(("exclude", index), condition, selected) for index, condition in enumerate(suite.exclude)]
    for key, condition, rows in conditions:
        if problem := _never_met(condition, rows, seen, changed):
            raise suite.document.error((*key, problem[0]) if problem[0] else key, problem[1])
    if suite.claims or suite.published:
        first = [row for row in selected if row.spec.seed == suite.seeds[0] and row.status != "excluded"]
        claimed = [row.properties for row in first]
    else:
        claimed = []
    probes = [probe.name for probe in suite.probes]
    tuned = suite.document.data.get("tune") or ()  # a smoke run has no search
    wrong = check_claims(suite.claims, suite.published, claimed, seen, probes=probes, tuned=tuned, changed=changed)
    for path, reason in wrong:
        raise suite.document.error(path, reason)
    for option, condition in filters:
        if problem := _never_met(condition, selected, seen, ()):
            raise SuiteError(problem[1], f"--only {option}", None, problem[0] or "")


def _arguments(kinds: Collection[str]) -> Iterator[str]:
    """Yield the keys by which conditions name the arguments of every component of these kinds."""
    for kind in _REGISTRIES.keys() & kinds:
        components = list(_components(_REGISTRIES[kind]))
        names = {argument.name for component in components for argument in component.arguments}
        outer = {f"{kind}.{argument}" for component in components for argument in component.initializer_arguments}
        yield from (f"{prefix}.{name}" for prefix in {kind, *outer} for name in names)
        if kind == "architecture":
            yield from names
            yield from (f"scheme.{argument.name}" for one in _components(SCHEMES) for argument in one.arguments)


def _components(registry: Registry[Any]) -> Iterator[Component[Any]]:
    return (registry.get(name) for name in registry.names() if not name.endswith("/*"))


def _never_met(
    condition: dict[str, Any], rows: Iterable[Row], seen: Seen, changed: Iterable[str]
) -> tuple[str | None, str] | None:
    matcher = Matcher(condition)
    any(matcher(row.properties) for row in rows)
    return matcher.problem(seen, set(changed))
