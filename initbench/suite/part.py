"""The parts of a plan: `Part`, a checked component that knows where it is written, and `Row`.

A list in place of a single value is crossed: each combination of listed values is a part of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from initbench.arguments import Key, show, types_of
from initbench.comparing.conditions import component_properties, properties
from initbench.errors import ArgumentError, DataError, UnknownNameError
from initbench.registry import INITIALIZERS, Component, Registry
from initbench.suite.document import Document, Origin
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.recipe import Recipe, checked_recipe

MOST_TRIALS = 100_000
Status = Literal["run", "unselected", "excluded", "incompatible", "waiting"]
Blamed = Literal["initializer", "dataset"]


@dataclass(frozen=True, eq=False)
class Part:
    """An initializer, architecture, dataset or probe of a suite.

    Attributes:
        values: all its arguments, as its factory takes them; `spec` has them as plain data.
        scheme: for an architecture, the scheme in the suite; for an initializer, the scheme that it or its base needs;
            None for any.
        scheme_arguments: for an architecture, the arguments of that scheme that are not at their defaults.
        described: for a dataset, its inputs and outputs; None if they are unknown without its files.
        absent: for a dataset whose files are absent, which file to put where.
        written: if a rule or a search has changed the part, the part as the suite writes it.
    """

    component: Component[Any]
    values: Mapping[str, Any]
    spec: ComponentSpec
    origin: Origin
    scheme: str | None = None
    scheme_arguments: Mapping[str, Any] = field(default_factory=dict)
    described: DatasetSpec | None = None
    absent: DataError | None = None
    written: Part | None = None

    @cached_property
    def properties(self) -> dict[str, Any]:
        """The properties that conditions on a trial can use."""
        return component_properties(self.component.kind, self.spec.name, self.spec.arguments)

    def changed(self, values: Mapping[str, Any], origin: Origin) -> Part:
        return part_of(self.component, {**self.values, **values}, origin, written=self.written or self)


@dataclass(frozen=True, eq=False)
class RecipePart:
    """A recipe of a suite; the suite, or the recipe that it starts from, sets `fields`."""

    fields: dict[str, Any]
    recipe: Recipe

    @cached_property
    def properties(self) -> dict[str, Any]:
        return {f"recipe.{name}": value for name, value in self.recipe.plain().items()}


class Parts(NamedTuple):
    dataset: Part
    architecture: Part
    recipe: RecipePart
    initializer: Part


@dataclass(frozen=True)
class Row:
    """A row of a plan: a trial and its status.

    Attributes:
        spec: the trial; its dataset is described in rows that run, and in those that only the selection leaves out.
        parts: the trial's components and recipe.
        status: ``run``; ``unselected`` by ``--only``; ``excluded`` by the suite; ``incompatible``, with a reason; or
            ``waiting`` for the files of its dataset.
        reason: why it cannot run, whether or not it is selected; empty if it can.
        blames: for an incompatible row, the part that the architecture does not fit; None if its scheme or the recipe
            is refused for every initializer and dataset.
        tries: if the suite tunes, a row for each try of its search, in ascending order of the values.
    """

    spec: TrialSpec
    parts: Parts = field(compare=False, repr=False)
    status: Status = "run"
    reason: str = ""
    blames: Blamed | None = None
    tries: tuple[Self, ...] = ()

    @property
    def properties(self) -> dict[str, Any]:
        dataset, architecture, recipe, initializer = (part.properties for part in self.parts)
        arguments, spec = self.parts.architecture.spec.arguments, self.spec
        scheme = component_properties("scheme", spec.scheme, spec.scheme_arguments)
        return properties(arguments, scheme, spec.seed, architecture, initializer, dataset, recipe)


def part_of(
    component: Component[Any],
    arguments: Mapping[str, Any],
    origin: Origin,
    *,
    scheme: tuple[str | None, Mapping[str, Any]] = (None, {}),
    call: bool = True,
    written: Part | None = None,
) -> Part:
    """Return a component with its arguments, as a suite writes them, checked and its defaults filled in.

    If `call`, its factory is called too, which may refuse them. `scheme` is that of an architecture with its arguments,
    as in `Part`.
    """
    try:
        values = component.resolve(arguments)
        if call:
            component.call(values)
    except ArgumentError as error:
        raise origin.argument_error(error) from error
    if component.kind == "initializer":
        scheme = (needed_scheme(component, values), {})
    spec = ComponentSpec(**component.spec(values))
    return Part(component, values, spec, origin, *scheme, written=written)


def recipe_of(document: Document, values: Mapping[str, Any], key: Key) -> Recipe:
    return checked_recipe(values, lambda within, problem: document.error((*key, *within), problem))


def recipe_takes_a_list(field: str) -> bool:
    return field in Recipe.model_fields and tuple in types_of(Recipe.model_fields[field].annotation)


def needed_scheme(component: Component[Any], values: Mapping[str, Any]) -> str | None:
    """Return the scheme that an initializer or its base needs; None for any."""
    bases = (values[name] for name in component.initializer_arguments)
    inner = (needed_scheme(base.component, base.arguments) for base in bases if base is not None)
    return component.traits.scheme or next(filter(None, inner), None)


def cross(
    document: Document,
    arguments: Mapping[str, Any],
    key: Key,
    takes_a_list: Callable[[str], bool],
    nested: Mapping[str, Registry[Any]] | None = None,
) -> list[tuple[dict[str, Any], Origin]]:
    """Return every combination of the listed values, including the values within components among the arguments.

    `key` is the entry's, `takes_a_list` says whether a list is a single value of the argument with a name, and `nested`
    has the registry of each argument that is a component.
    """
    nested = nested or {}
    axes = []
    for name, value in arguments.items():
        values = _values(document, value, (*key, name), takes_a_list=takes_a_list(name))
        if name in nested:
            values = [(at, made) for at, item in values for made in _inside(document, item, at, nested[name])]
        axes.append([(name, item) for item in values])
    if math.prod(map(len, axes)) > MOST_TRIALS:
        raise document.error(key, f"gives more than {MOST_TRIALS} combinations")
    crossed = []
    for combination in itertools.product(*axes):
        listed = {name: at for name, (at, _) in combination if name in nested}
        crossed.append(({name: value for name, (_, value) in combination}, Origin(document, key, listed)))
    return crossed


def _values(document: Document, value: Any, key: Key, *, takes_a_list: bool) -> list[tuple[Key, Any]]:
    """Return each listed value with its key; a list of a list-typed argument is a single value unless nested."""
    if not isinstance(value, list) or (takes_a_list and not any(isinstance(item, list) for item in value)):
        return [(key, value)]
    if not value:
        raise document.error(key, "must not be an empty list: nothing would run")
    once: set[str] = set()
    for index, item in enumerate(value):
        if repr(item) in once:
            raise document.error((*key, index), f"{show(item)} is given twice")
        once.add(repr(item))
    return [((*key, index), item) for index, item in enumerate(value)]


def _inside(document: Document, value: Any, key: Key, registry: Registry[Any]) -> list[Any]:
    """Return every combination within a component that is an argument; errors in it are reported later."""
    try:
        component = registry.get(value["name"])
    except (TypeError, KeyError, AttributeError, UnknownNameError):
        return [value]
    arguments = {name: item for name, item in value.items() if name != "name"}
    inner = dict.fromkeys(component.initializer_arguments, INITIALIZERS)
    crossed = cross(document, arguments, key, component.takes_a_list, inner)
    return [{"name": value["name"], **combination} for combination, _ in crossed]
