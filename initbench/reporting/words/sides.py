"""Conditions on trials in words, and what tells several of them apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_COMPONENTS = ("architecture", "initializer", "dataset", "scheme")


def told_apart(sides: Sequence[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return what tells conditions apart, a text for each, and what all of them have; empty where that is nothing.

    A condition that has nothing beside what all have is told whole.

    Args:
        sides: conditions as a suite states them.
    """
    first, *others = sides
    same = {key: value for key, value in first.items() if others and all(other.get(key) == value for other in others)}
    return [
        side_words({key: value for key, value in side.items() if key not in same} or side) for side in sides
    ], side_words(same)


def side_words(condition: Mapping[str, Any]) -> str:
    """Return a condition in words, such as ``plain, depth 28``."""
    return ", ".join(_property(key, value) for key, value in condition.items())


def _property(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if key in _COMPONENTS else f"{key.rpartition('.')[2]} {text}"
