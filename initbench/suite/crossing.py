"""Crossing: every combination of the values that are listed where one is expected."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from initbench.arguments import show
from initbench.errors import UnknownNameError
from initbench.registry import INITIALIZERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from initbench.arguments import Key
    from initbench.registry import Component
    from initbench.suite.document import Document

MOST_TRIALS = 100_000


@dataclass(frozen=True)
class Crossed:
    """One combination of a component's arguments.

    Attributes:
        arguments: by name.
        places: where the initializers among them stand that are items of a list.
    """

    arguments: dict[str, Any]
    places: dict[str, Key]


def cross_arguments(
    document: Document, component: Component[Any], arguments: Mapping[str, Any], key: Key
) -> list[Crossed]:
    """Return every combination of a component's arguments; those of an initializer among them are crossed too.

    Args:
        document: for messages.
        component: says which arguments take a list as one value, and which are initializers.
        arguments: as the suite has them.
        key: where the component stands.

    Raises:
        SuiteError: a list is empty or has a value twice, or there are too many combinations.
    """
    return [
        Crossed(
            {name: value for name, (_, value) in combination.items()},
            {name: place for name, (place, _) in combination.items() if name in component.initializer_arguments},
        )
        for combination in _combinations(
            document, arguments, key, component.takes_a_list, component.initializer_arguments
        )
    ]


def cross(
    document: Document, values: Mapping[str, Any], key: Key, takes_a_list: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Return every combination of the listed values; a list of a list-typed argument is one value unless nested.

    Args:
        document: for messages.
        values: by name.
        key: where they stand.
        takes_a_list: says whether a list is one value of the argument of this name.

    Raises:
        SuiteError: see `cross_arguments`.
    """
    return [
        {name: value for name, (_, value) in combination.items()}
        for combination in _combinations(document, values, key, takes_a_list)
    ]


def _combinations(
    document: Document,
    arguments: Mapping[str, Any],
    key: Key,
    takes_a_list: Callable[[str], bool],
    initializers: Collection[str] = (),
) -> list[dict[str, tuple[Key, Any]]]:
    """Return every combination, each value with the key where it stands."""
    axes = []
    for name, value in arguments.items():
        values = _values(document, value, (*key, name), takes_a_list=takes_a_list(name))
        if name in initializers:
            values = [(place, made) for place, item in values for made in _inside(document, item, place)]
        axes.append([(name, item) for item in values])
    if math.prod(map(len, axes)) > MOST_TRIALS:
        raise document.error(key, f"comes to more than {MOST_TRIALS} combinations")
    return [dict(combination) for combination in itertools.product(*axes)]


def _values(document: Document, value: Any, key: Key, *, takes_a_list: bool) -> list[tuple[Key, Any]]:
    """Return each value that is listed, with the key where it stands."""
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


def _inside(document: Document, value: Any, key: Key) -> Iterator[Any]:
    """Yield every combination within an initializer that is an argument; what is wrong with one is found later."""
    try:
        component = INITIALIZERS.get(value["name"])
    except (TypeError, KeyError, AttributeError, UnknownNameError):
        yield value
        return
    arguments = {name: item for name, item in value.items() if name != "name"}
    for crossed in cross_arguments(document, component, arguments, key):
        yield {"name": value["name"], **crossed.arguments}
