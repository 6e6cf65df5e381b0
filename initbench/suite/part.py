"""What planning is made of: `Part`, a component that is checked once and knows where it is written, and `Row`.

A list where one value is expected is crossed: each combination of the listed values is a part of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from pydantic import ValidationError

from initbench.arguments import Key, argument_of, explain, show, types_of
from initbench.comparing.conditions import component_properties, properties
from initbench.errors import ArgumentError, DataError, UnknownNameError
from initbench.registry import INITIALIZERS, Component
from initbench.suite.document import Document, Origin
from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec
from initbench.training.recipe import ByRole, Recipe

MOST_TRIALS = 100_000
Status = Literal["run", "unselected", "excluded", "incompatible", "waiting"]
Blamed = Literal["initializer", "dataset"]


@dataclass(frozen=True, eq=False)
class Part:
    """An initializer, architecture, dataset or probe of a suite.

    Attributes:
        component: what is registered under its name.
        values: all its arguments, as its factory takes them.
        spec: the same as plain data.
        origin: where it is written.
        scheme: of an architecture, the scheme that the suite asks for; of an initializer, the one that it needs, or
            that one needs from which it starts; None for any.
        described: of a dataset, what it asks of a model; None if that is not known without its files.
        absent: of a dataset whose files are absent, what to put where.
        written: the part that the suite writes, of one that a rule or a search has changed.
    """

    component: Component[Any]
    values: Mapping[str, Any]
    spec: ComponentSpec
    origin: Origin
    scheme: str | None = None
    described: DatasetSpec | None = None
    absent: DataError | None = None
    written: Part | None = None

    @cached_property
    def properties(self) -> dict[str, Any]:
        """What conditions on a trial can name of it."""
        return component_properties(self.component.kind, self.spec.name, self.spec.arguments)

    def changed(self, values: Mapping[str, Any], origin: Origin) -> Part:
        """Return an initializer with other values."""
        return part_of(self.component, {**self.values, **values}, origin, written=self.written or self)


@dataclass(frozen=True, eq=False)
class RecipePart:
    """A recipe of a suite.

    Attributes:
        fields: those that the suite sets, or the recipe that it starts from.
        recipe: with all others at their defaults.
    """

    fields: dict[str, Any]
    recipe: Recipe

    @cached_property
    def properties(self) -> dict[str, Any]:
        """What conditions on a trial can name of it."""
        return {f"recipe.{name}": value for name, value in self.recipe.plain().items()}


class Parts(NamedTuple):
    """What a trial is made of."""

    dataset: Part
    architecture: Part
    recipe: RecipePart
    initializer: Part


@dataclass(frozen=True)
class Row:
    """A row of a plan: a trial, and what becomes of it.

    Attributes:
        spec: the trial; its dataset is described in rows that run, and in those that only the selection leaves out.
        parts: what it is made of.
        status: ``run``; ``unselected`` by ``--only``; ``excluded`` by the suite; ``incompatible``, with a reason; or
            ``waiting`` for the files of its dataset.
        reason: why it cannot run, whether or not it is selected; empty if it can.
        blames: of an incompatible row, what the architecture does not go with; None if its scheme or the recipe is
            refused, whatever the initializer and the dataset.
        tries: of a suite that tunes, a row for each try of its search, in ascending order of what is tried.
    """

    spec: TrialSpec
    parts: Parts = field(compare=False, repr=False)
    status: Status = "run"
    reason: str = ""
    blames: Blamed | None = None
    tries: tuple[Self, ...] = ()

    @property
    def properties(self) -> dict[str, Any]:
        """What conditions on the trial can name."""
        dataset, architecture, recipe, initializer = (part.properties for part in self.parts)
        arguments = self.parts.architecture.spec.arguments
        return properties(arguments, self.spec.scheme, self.spec.seed, architecture, initializer, dataset, recipe)


def part_of(
    component: Component[Any],
    arguments: Mapping[str, Any],
    origin: Origin,
    *,
    scheme: str | None = None,
    call: bool = True,
    written: Part | None = None,
) -> Part:
    """Return a component with its arguments checked and its defaults filled in.

    Args:
        component: what is registered.
        arguments: as a suite writes them.
        origin: where it is written.
        scheme: that the suite asks for, of an architecture.
        call: whether the factory is asked too.
        written: see `Part`.
    """
    try:
        values = component.resolve(arguments)
        if call:
            component.call(values)
    except ArgumentError as error:
        raise origin.argument_error(error) from error
    needed = needed_scheme(component, values) if component.kind == "initializer" else scheme
    spec = ComponentSpec(**component.spec(values))
    return Part(component, values, spec, origin, needed, written=written)


def recipe_of(document: Document, values: Mapping[str, Any], key: Key) -> Recipe:
    """Return the recipe with these fields; lists of YAML become tuples."""
    try:
        return Recipe.model_validate({k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        valid = Recipe.model_fields if len(details["loc"]) == 1 else ByRole.model_fields
        raise document.error((*key, *argument_of(details)), explain(details, valid)) from None


def recipe_takes_a_list(field: str) -> bool:
    """Return whether a list is one value of this field of a recipe (and so is not crossed)."""
    return field in Recipe.model_fields and tuple in types_of(Recipe.model_fields[field].annotation)


def needed_scheme(component: Component[Any], values: Mapping[str, Any]) -> str | None:
    """Return the scheme that an initializer needs, or one of those that it starts from; None for any."""
    bases = (values[name] for name in component.initializer_arguments)
    inner = (needed_scheme(base.component, base.arguments) for base in bases if base is not None)
    return component.traits.scheme or next(filter(None, inner), None)


def cross(
    document: Document,
    arguments: Mapping[str, Any],
    key: Key,
    takes_a_list: Callable[[str], bool],
    initializers: Collection[str] = (),
) -> list[tuple[dict[str, Any], Origin]]:
    """Return every combination of the listed values; those of an initializer among the arguments are crossed too.

    Args:
        document: for messages.
        arguments: as the suite has them.
        key: of what has the arguments.
        takes_a_list: whether a list is one value of the argument of this name.
        initializers: the names of arguments that are initializers.
    """
    axes = []
    for name, value in arguments.items():
        values = _values(document, value, (*key, name), takes_a_list=takes_a_list(name))
        if name in initializers:
            values = [(at, made) for at, item in values for made in _inside(document, item, at)]
        axes.append([(name, item) for item in values])
    if math.prod(map(len, axes)) > MOST_TRIALS:
        raise document.error(key, f"comes to more than {MOST_TRIALS} combinations")
    crossed = []
    for combination in itertools.product(*axes):
        listed = {name: at for name, (at, _) in combination if name in initializers}
        crossed.append(({name: value for name, (_, value) in combination}, Origin(document, key, listed)))
    return crossed


def _values(document: Document, value: Any, key: Key, *, takes_a_list: bool) -> list[tuple[Key, Any]]:
    """Return each value that is listed, with its key; a list of a list-typed argument is one value unless nested."""
    if not isinstance(value, list) or (takes_a_list and not any(isinstance(item, list) for item in value)):
        return [(key, value)]
    if not value:
        raise document.error(key, "must not be an empty list: nothing would run")
    once: set[str] = set()
    for index, item in enumerate(value):
        if repr(item) in once:
            raise document.error((*key, index), f"{show(item)} stands twice")
        once.add(repr(item))
    return [((*key, index), item) for index, item in enumerate(value)]


def _inside(document: Document, value: Any, key: Key) -> list[Any]:
    """Return every combination within an initializer that is an argument; what is wrong with one is said later."""
    try:
        component = INITIALIZERS.get(value["name"])
    except (TypeError, KeyError, AttributeError, UnknownNameError):
        return [value]
    arguments = {name: item for name, item in value.items() if name != "name"}
    crossed = cross(document, arguments, key, component.takes_a_list, component.initializer_arguments)
    return [{"name": value["name"], **own} for own, _ in crossed]
