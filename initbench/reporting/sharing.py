"""Equal parts of many records as one object.

10,000 trials have few networks, initializers, recipes and tasks. A report keeps one copy of each in memory, and derives
its words from each only once.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from typing import Any, TypeVar

Part = TypeVar("Part")
_VERSION = 2  # of marshal's format: the last version in which equal data give equal bytes, however they share parts


class Shared:
    """Keeps one object for all that are equal, including their types and order of keys: 1 and 1.0 read differently."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}

    def of(self, part: Part) -> Part:
        """Return the first part that was equal to this one; a part that is not plain data is returned as it is."""
        try:
            key = marshal.dumps(part, _VERSION)  # type: ignore[arg-type]
        except ValueError:
            return part
        known: Part = self._known.setdefault(key, part)
        return known

    def within(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Return a mapping in which each value that is a mapping or a list is shared."""
        return {name: self.of(part) if isinstance(part, dict | list) else part for name, part in parts.items()}


def distinct(parts: Iterable[Part]) -> list[Part]:
    """Return each object once, in order of first appearance."""
    return list({id(part): part for part in parts}.values())
