"""From a suite file to a `Suite`: every name looked up, every argument checked, every list crossed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES
from initbench.suite.document import Document, Key, read
from initbench.suite.schema import SCHEMES, Entry, Resources, Rule, recipe_of, takes_a_list, validate
from initbench.suite.spec import ComponentSpec
from initbench.training.recipe import Recipe
from initbench.validation import nearest, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from initbench.registry import Component, Registry


@dataclass(frozen=True)
class Choice:
    """One component of a suite after crossing.

    Attributes:
        spec: the component, defaults resolved.
        key: where it stands in the file.
        scheme: of an architecture, the scheme that the suite asks for; None where it does not say.
    """

    spec: ComponentSpec
    key: Key
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


def load_suite(path: str | Path, assignments: Iterable[str] = ()) -> Suite:
    """Read and check a suite file.

    Args:
        path: the YAML file.
        assignments: ``KEY=VALUE`` overrides, applied before anything is checked.

    Raises:
        SuiteError: what is wrong, with file, line and key.
    """
    document = read(path)
    for assignment in assignments:
        document.set(assignment)
    return suite_of(document)


def suite_of(document: Document) -> Suite:
    """Check a document; see `load_suite`."""
    file = validate(document)
    architectures = _choices(document, "architectures", file.architectures, _architectures)
    initializers = _choices(document, "initializers", file.initializers, _initializers)
    recipes = tuple(
        _cross(
            file.recipe, lambda name: name in Recipe.model_fields and takes_a_list(Recipe.model_fields[name].annotation)
        )
    )
    for recipe in recipes:
        recipe_of(document, recipe, ("recipe",))
    probes = [choice.spec for choice in _choices(document, "probes", file.probes, _components(PROBES))]
    _refuse_empty_lists(document, document.data, ())
    return Suite(
        document=document,
        name=file.name,
        description=file.description,
        datasets=tuple(_datasets(document, file.dataset, ("dataset",))),
        architectures=architectures,
        initializers=initializers,
        recipes=recipes,
        rules=tuple(file.rules),
        exclude=tuple(file.exclude),
        probes=tuple(probes),
        seeds=tuple(file.seeds),
        resources=file.resources,
    )


def _choices(
    document: Document,
    section: str,
    entries: Iterable[Entry],
    read_entry: Callable[[Document, Entry, Key], list[Choice]],
) -> tuple[Choice, ...]:
    choices: list[Choice] = []
    for index, entry in enumerate(entries):
        for choice in read_entry(document, entry, (section, index)):
            same = [c for c in choices if (c.spec, c.scheme) == (choice.spec, choice.scheme)]
            if same:
                raise document.error(choice.key, f"the same {choice.spec.name} stands twice in {section}")
            choices.append(choice)
    return tuple(choices)


def _lookup(document: Document, registry: Registry[Any], name: str, key: Key) -> Component[Any]:
    try:
        return registry.get(name)
    except UnknownNameError as error:
        raise document.error((*key, "name"), str(error)) from error


def _cross(arguments: Mapping[str, Any], is_value: Callable[[str], bool]) -> list[dict[str, Any]]:
    """Return every combination of the listed values; a list of a list-typed argument is one value unless nested."""
    axes = []
    for name, value in arguments.items():
        crossed = isinstance(value, list) and (not is_value(name) or any(isinstance(v, list) for v in value))
        axes.append([(name, v) for v in value] if crossed else [(name, value)])
    return [dict(combination) for combination in itertools.product(*axes)]


def _specs(
    document: Document,
    component: Component[Any],
    arguments: Mapping[str, Any],
    key: Key,
    *,
    build: bool = True,
) -> list[ComponentSpec]:
    """Return a `ComponentSpec` for every crossing, each checked by the factory itself where `build` is set."""
    known = {a.name for a in component.arguments}
    specs = []
    for combination in _cross(arguments, lambda name: name in known and takes_a_list(component.argument_type(name))):
        try:
            resolved = component.resolve(combination)
            if build:
                component.build(combination)
        except ArgumentError as error:
            where = (*key, error.argument) if error.argument is not None else key
            message = str(error).removeprefix(f"{error.argument}: ")
            raise document.error(where, message) from error
        specs.append(
            ComponentSpec(name=component.name, arguments=resolved, version=component.version, source=component.source)
        )
    return specs


def _components(registry: Registry[Any]) -> Callable[[Document, Entry, Key], list[Choice]]:
    def read_entry(document: Document, entry: Entry, key: Key) -> list[Choice]:
        component = _lookup(document, registry, entry.name, key)
        return [Choice(spec, key) for spec in _specs(document, component, entry.arguments, key)]

    return read_entry


def _datasets(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, DATASETS, entry.name, key)
    # Building a dataset reads its files: the driver does that once it is known that anything has to run.
    return [Choice(spec, key) for spec in _specs(document, component, entry.arguments, key, build=False)]


def _architectures(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, ARCHITECTURES, entry.name, key)
    arguments = entry.arguments
    schemes = arguments.pop("scheme", None)
    choices = []
    for scheme in schemes if isinstance(schemes, list) else [schemes]:
        if scheme is not None and scheme not in SCHEMES:
            hint = nearest(scheme, SCHEMES, list_all=False) if isinstance(scheme, str) else ""
            raise document.error((*key, "scheme"), f"must be one of {', '.join(SCHEMES)}; got {show(scheme)}{hint}")
        # The planner builds each on the meta device, where it knows the input's shape.
        choices += [Choice(s, key, scheme) for s in _specs(document, component, arguments, key, build=False)]
    return choices


def _initializers(document: Document, entry: Entry, key: Key) -> list[Choice]:
    component = _lookup(document, INITIALIZERS, entry.name, key)
    arguments = entry.arguments
    if component.traits.kind != "tuner":
        for name in ("base", "batch_size"):
            if name in arguments:
                message = f"{entry.name} is a distribution; only a tuner has a {name}"
                raise document.error((*key, name), message)
        return [Choice(spec, key) for spec in _specs(document, component, arguments, key)]
    bases = _bases(document, arguments.pop("base", component.traits.base), (*key, "base"))
    sizes = arguments.pop("batch_size", component.traits.batch_size)
    choices = []
    for size in sizes if isinstance(sizes, list) else [sizes]:
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise document.error((*key, "batch_size"), f"must be an integer of at least 1, got {show(size)}")
        for spec in _specs(document, component, arguments, key):
            choices += [Choice(spec.model_copy(update={"base": b, "batch_size": size}), key) for b in bases]
    return choices


def _bases(document: Document, value: Any, key: Key) -> list[ComponentSpec | None]:
    bases: list[ComponentSpec | None] = []
    for item in value if isinstance(value, list) else [value]:
        if item is None:
            bases.append(None)
            continue
        if not isinstance(item, str | dict) or (isinstance(item, dict) and not isinstance(item.get("name"), str)):
            raise document.error(key, f"must be a distribution's name or {{name: ...}}, got {show(item)}")
        arguments = dict(item) if isinstance(item, dict) else {"name": item}
        component = _lookup(document, INITIALIZERS, arguments.pop("name"), key)
        if component.traits.kind == "tuner":
            raise document.error(key, f"{component.name} is a tuner; a base is a distribution")
        bases += _specs(document, component, arguments, key)
    return bases


def _refuse_empty_lists(document: Document, value: Any, key: Key) -> None:
    if isinstance(value, dict):
        for name, child in value.items():
            _refuse_empty_lists(document, child, (*key, name))
    elif isinstance(value, list):
        if not value and key not in {("rules",), ("exclude",), ("probes",)}:
            raise document.error(key, "must not be an empty list: nothing would run")
        for index, child in enumerate(value):
            _refuse_empty_lists(document, child, (*key, index))
