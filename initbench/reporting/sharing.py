"""Equal parts of many records as one object, and what is made of each only once.

10,000 trials are of few networks, initializers, recipes and tasks: a report need neither hold these in memory 10,000
times nor work out as often what it says of them.
"""

from __future__ import annotations

import marshal
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Part = TypeVar("Part")
Made = TypeVar("Made")
_VERSION = 2  # of marshal's format, the last in which equal data give equal bytes, however they share their parts


class Shared:
    """Keeps one object of all that are equal, in types and in the order of keys too: 1 and 1.0 read differently."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def of(self, part: Part) -> Part:
        """Return the first part that was equal to this one.

        Args:
            part: plain data; what is not is returned as it is.
        """
        try:
            key = marshal.dumps(part, _VERSION)  # type: ignore[arg-type]
        except ValueError:
            return part
        known: Part = self._known.setdefault(key, part)
        return known

    def within(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Return a mapping with each of its values that are mappings or lists as `of` returns it."""
        return {name: self.of(part) if isinstance(part, dict | list) else part for name, part in parts.items()}


class Once(Generic[Part, Made]):
    """A function that is called once for each object, not for each equal one.

    Args:
        function: of a part of records.
    """

    def __init__(self, function: Callable[[Part], Made]) -> None:
        self._function = function
        self._found: dict[int, tuple[Part, Made]] = {}  # the part too, so that no other one gets its id

    def __call__(self, part: Part) -> Made:
        """Return what the function returns of this object."""
        found = self._found.get(id(part))
        if found is None:
            found = self._found[id(part)] = (part, self._function(part))
        return found[1]


def distinct(parts: Iterable[Part]) -> list[Part]:
    """Return each object once, in the order in which they are first met.

    Args:
        parts: of records, of which many are the same object.
    """
    return list({id(part): part for part in parts}.values())
