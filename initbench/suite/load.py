"""From a suite file to a `Suite`: every name looked up, every argument checked, every list crossed."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, Component
from initbench.suite.document import Document, Key, read
from initbench.suite.schema import SCHEMES, Entry, Resources, Rule, recipe_of, recipe_takes_a_list, validate
from initbench.suite.spec import ComponentSpec
from initbench.training.recipe import Recipe
from initbench.validation import nearest, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from initbench.registry import Registry

MOST_TRIALS = 100_000


@dataclass(frozen=True)
class Choice:
    """One component of a suite after crossing.

    Attributes:
        spec: the component, defaults resolved.
        key: where it stands in the file.
        component: what is registered under its name.
        scheme: of an architecture, the scheme that the suite asks for; of an initializer, the one that it or its base
            needs; None for any.
    """

    spec: ComponentSpec
    key: Key
    component: Component[Any]
    scheme: str | None = None


@dataclass(frozen=True)
class Suite:
    """What a suite file asks for.

    Attributes:
        document: the file, for messages and to keep beside the results.
        name: the suite's name.
        description: the question that it answers.
        datasets: one, or several where an argument is crossed.
        architectures: likewise.
        initializers: likewise.
        recipes: fields that the file sets, one mapping for each crossing; rules are applied to these.
        rules: what depends on the pair.
        exclude: conditions of the pairs that do not run.
        probes: what is measured.
        seeds: the replicates.
        resources: what each trial takes.
    """

    document: Document
    name: str
    description: str
    datasets: tuple[Choice, ...]
    architectures: tuple[Choice, ...]
    initializers: tuple[Choice, ...]
    recipes: tuple[dict[str, Any], ...]
    rules: tuple[Rule, ...]
    exclude: tuple[dict[str, Any], ...]
    probes: tuple[ComponentSpec, ...]
    seeds: tuple[int, ...]
    resources: Resources


def load_suite(path: str | Path, assignments: Iterable[str] = (), seeds: int | None = None) -> Suite:
    """Read and check a suite file.

    Args:
        path: the YAML file.
        assignments: ``KEY=VALUE`` overrides, applied before anything is checked.
        seeds: the number of seeds, in place of the suite's.

    Raises:
        SuiteError: what is wrong, with file, line and key.
    """
    document = read(path)
    for assignment in assignments:
        document.set(assignment)
    if seeds is not None:
        document.set(f"seeds={seeds}", f"--seeds {seeds}")
    return suite_of(document)


def suite_of(document: Document) -> Suite:
    """Check a document; see `load_suite`."""
    file = validate(document)
    recipes = tuple(_cross(document, file.recipe, ("recipe",), recipe_takes_a_list))
    for recipe in recipes:
        recipe_of(document, recipe, ("recipe",))
    for index, rule in enumerate(file.rules):
        _check_rule(document, rule, ("rules", index))
    return Suite(
        document=document,
        name=file.name,
        description=file.description,
        datasets=tuple(_datasets(document, file.dataset, ("dataset",))),
        architectures=_section(document, "architectures", file.architectures, _architectures),
        initializers=_section(document, "initializers", file.initializers, initializers_of),
        recipes=recipes,
        rules=tuple(file.rules),
        exclude=tuple(file.exclude),
        probes=tuple(choice.spec for choice in _section(document, "probes", file.probes, _probes)),
        seeds=tuple(file.seeds),
        resources=file.resources,
    )


def _section(
    document: Document,
    section: str,
    entries: Iterable[Entry],
    read_entry: Callable[[Document, Entry, Key], list[Choice]],
) -> tuple[Choice, ...]:
    choices: dict[tuple[str, str | None], Choice] = {}
    for index, entry in enumerate(entries):
        for choice in read_entry(document, entry, (section, index)):
            same = (choice.spec.model_dump_json(), choice.scheme)
            if same in choices:
                raise document.error(choice.key, f"the same {choice.spec.name} stands twice in {section}")
            choices[same] = choice
    return tuple(choices.values())


def _check_rule(document: Document, rule: Rule, key: Key) -> None:
    for name, value in rule.recipe.items():
        if isinstance(value, list) and name in Recipe.model_fields and not recipe_takes_a_list(name):
            raise document.error((*key, "recipe", name), f"a rule sets one value, got {show(value)}")
    if "name" in rule.initializer:
        raise document.error((*key, "initializer", "name"), "a rule sets arguments; it cannot change the initializer")


def _datasets(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, DATASETS, entry.name, key)
    crossed = _cross(document, entry.arguments, key, component.takes_a_list)
    # Building a dataset reads its files: the driver does that once it is known that anything has to run.
    return [Choice(_spec(document, component, a, key, build=False), key, component) for a in crossed]


def _probes(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, PROBES, entry.name, key)
    crossed = _cross(document, entry.arguments, key, component.takes_a_list)
    return [Choice(_spec(document, component, a, key), key, component) for a in crossed]


def _architectures(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, ARCHITECTURES, entry.name, key)
    choices = []
    for arguments in _cross(document, entry.arguments, key, component.takes_a_list):
        scheme = arguments.pop("scheme", None)
        if scheme is not None and scheme not in SCHEMES:
            hint = nearest(scheme, SCHEMES, list_all=False) if isinstance(scheme, str) else ""
            raise document.error((*key, "scheme"), f"must be one of {', '.join(SCHEMES)}; got {show(scheme)}{hint}")
        # The planner builds each, once it knows the shape of the inputs.
        choices.append(Choice(_spec(document, component, arguments, key, build=False), key, component, scheme))
    return choices


def initializers_of(document: Document, entry: Entry, key: Key) -> list[Choice]:
    """Return the initializers of one entry, or of what a rule makes of it.

    Args:
        document: for messages.
        entry: name and arguments; for a tuner also ``base`` and ``batch_size``.
        key: where the entry stands.

    Raises:
        SuiteError: a name is unknown or an argument refused.
    """
    component = _lookup(document, INITIALIZERS, entry.name, key)
    declared = component.traits
    choices = []
    for arguments in _cross(document, entry.arguments, key, component.takes_a_list):
        if declared.kind != "tuner":
            for name in ("base", "batch_size"):
                if name in arguments:
                    raise document.error(
                        (*key, name), f"{entry.name} is a distribution; only a tuner has a {name.replace('_', ' ')}"
                    )
            choices.append(Choice(_spec(document, component, arguments, key), key, component, declared.scheme))
            continue
        bases = _bases(document, arguments.pop("base", declared.base), (*key, "base"))
        size = arguments.pop("batch_size", declared.batch_size)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise document.error((*key, "batch_size"), f"must be an integer of at least 1, got {show(size)}")
        spec = _spec(document, component, arguments, key)
        for base, scheme in bases:
            tuner = spec.model_copy(update={"base": base, "batch_size": size})
            choices.append(Choice(tuner, key, component, declared.scheme or scheme))
    return choices


def _bases(document: Document, value: Any, key: Key) -> list[tuple[ComponentSpec | None, str | None]]:
    """Return each base with the scheme that it needs."""
    if value is None:
        return [(None, None)]
    arguments = {"name": value} if isinstance(value, str) else value
    if not isinstance(arguments, dict) or not isinstance(arguments.get("name"), str):
        raise document.error(key, f"must be a distribution's name or {{name: ...}}, got {show(value)}")
    name = arguments["name"]
    component = _lookup(document, INITIALIZERS, name, key)
    if component.traits.kind == "tuner":
        raise document.error(key, f"{name} is a tuner; a base is a distribution")
    arguments = {n: v for n, v in arguments.items() if n != "name"}
    crossed = _cross(document, arguments, key, component.takes_a_list)
    return [(_spec(document, component, a, key), component.traits.scheme) for a in crossed]


def _lookup(document: Document, registry: Registry[Any], name: str, key: Key) -> Component[Any]:
    try:
        return registry.get(name)
    except UnknownNameError as error:
        raise document.error((*key, "name") if (*key, "name") in document.lines else key, str(error)) from error


def _spec(
    document: Document, component: Component[Any], arguments: Mapping[str, Any], key: Key, *, build: bool = True
) -> ComponentSpec:
    """Return the component with its arguments checked; by the factory itself where `build` is set."""
    try:
        resolved = component.resolve(arguments)
        if build:
            component.build(arguments)
    except ArgumentError as error:
        raise document.argument_error(key, error) from error
    return ComponentSpec(name=component.name, arguments=resolved, version=component.version, source=component.source)


def _cross(
    document: Document, arguments: Mapping[str, Any], key: Key, takes_a_list: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Return every combination of the listed values; a list of a list-typed argument is one value unless nested."""
    axes = []
    for name, value in arguments.items():
        crossed = isinstance(value, list) and (not takes_a_list(name) or any(isinstance(v, list) for v in value))
        values = value if crossed else [value]
        if not values:
            raise document.error((*key, name), "must not be an empty list: nothing would run")
        once: set[str] = set()
        for index, item in enumerate(values):
            if repr(item) in once:
                raise document.error((*key, name, index), f"{show(item)} stands twice")
            once.add(repr(item))
        axes.append([(name, v) for v in values])
    if math.prod(map(len, axes)) > MOST_TRIALS:
        raise document.error(key, f"comes to more than {MOST_TRIALS} combinations")
    return [dict(combination) for combination in itertools.product(*axes)]
