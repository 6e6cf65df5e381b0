"""Keys of treatments and workloads: factors with their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

COMPONENTS = ("architecture", "dataset", "initializer")
"""The factors whose values are components, each with its arguments below it."""


class Key(Mapping[str, Any]):
    """An immutable, hashable mapping from factors to values, in the order of a label.

    A component is a factor with its name, and one factor for each argument: ``architecture``, ``architecture.depth``.
    An argument that is itself a component has a `Component` as its value.

    Args:
        values: factor → value.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})
        # By their texts, because 1, 1.0 and True are equal in Python, but not for a trial.
        self._identity = frozenset((factor, repr(value)) for factor, value in self._values.items())

    def __getitem__(self, factor: str) -> Any:
        return self._values[factor]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, Key) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __or__(self, values: Mapping[str, Any]) -> Key:
        return Key(self._values | dict(values))

    def __repr__(self) -> str:
        return f"Key({self._values})"

    def without(self, *factors: str) -> Key:
        """Return the key without some factors and the factors below them."""
        below = tuple(f"{factor}." for factor in factors)
        return Key({f: value for f, value in self.items() if f not in factors and not f.startswith(below)})

    def below(self, factor: str) -> Key:
        """Return the factors below a factor, by the rest of their names: ``depth`` for ``architecture.depth``."""
        start = f"{factor}."
        return Key({f.removeprefix(start): value for f, value in self.items() if f.startswith(start)})

    def component(self, factor: str) -> Component:
        return Component(self[factor], self.below(factor))


def varying(keys: Iterable[Key]) -> set[str]:
    """Return the factors that have several values among some keys; a key without a factor does not count for it."""
    values = {(factor, repr(value)) for key in keys for factor, value in key.items()}
    return {factor for factor, count in Counter(factor for factor, _ in values).items() if count > 1}


class Component(NamedTuple):
    """A component with the arguments to show."""

    name: str
    arguments: Key

    def under(self, factor: str) -> dict[str, Any]:
        """Return its factors in a key; a recipe has no name."""
        named = {factor: self.name} if self.name else {}
        return named | {f"{factor}.{argument}": value for argument, value in self.arguments.items()}
