"""What a record says of its tuner: its objective by step, and by what it scaled each tensor."""

from __future__ import annotations

import math
import sys
from array import array
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT = ("cost", "tuning", "factors")
"""What a report keeps of an initialization."""


def kept_of(initialization: Mapping[str, Any], points: int) -> dict[str, Any]:
    """Return what a report needs of an initialization: all of `KEPT` that it says.

    - ``cost``: its passes, as they are;
    - ``tuning``: quantity → values by step, and ``step`` → the steps, of a tuner's history;
    - ``factors``: parameter → the number by which it was multiplied, where it was.

    What is kept of an initialization that is such already is the same again.

    Args:
        initialization: of a record.
        points: the most steps that are kept of a history; see `thinned`.
    """
    found = {key: initialization[key] for key in KEPT if initialization.get(key)}
    if history := initialization.get("history"):
        found["tuning"] = _by_quantity(history, thinned(len(history), points))
    if factors := _factors(initialization.get("tensors", {})):
        found["factors"] = factors
    return found


def thinned(length: int, points: int) -> list[int]:
    """Return at most `points` indices below a length, the first and the last among them.

    Every k-th is kept, k a power of two: of two histories, one of which ended early, the shorter has every index of the
    longer up to its end.
    """
    stride = 1
    while length > 1 and (length - 2) // stride + 2 > points:
        stride *= 2
    return sorted({*range(0, length, stride), length - 1}) if length else []


def _by_quantity(history: Sequence[Mapping[str, Any]], kept: Sequence[int]) -> dict[str, array[float]]:
    """Return the columns of a history as numbers; a quantity that has other values is left out."""
    entries = [history[index] for index in kept]
    names = dict.fromkeys(chain.from_iterable(entries))
    # A tuner of a plug-in need not count its steps.
    columns = {"step": array("d", [entry.get("step", index) for entry, index in zip(entries, kept, strict=True)])}
    for name in names:
        # Beside a value that is not finite stands its reason (`json_values`).
        if name == "step" or (name.endswith("_reason") and name.removesuffix("_reason") in names):
            continue
        values = [entry.get(name) for entry in entries]
        if None in values and all(value is None or isinstance(value, int | float) for value in values):
            values = [_number(value, entry, name) for value, entry in zip(values, entries, strict=True)]
        with suppress(TypeError):
            columns[sys.intern(name)] = array("d", values)
    return columns


def _number(value: float | None, entry: Mapping[str, Any], name: str) -> float:
    """Return a value; one that was not finite reads as +∞ (-∞ where it was that), NaN where there is none."""
    if value is not None:
        return float(value)
    reason = entry.get(f"{name}_reason")
    return math.nan if reason is None else -math.inf if reason == "-inf" else math.inf


def _factors(tensors: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Return by what each parameter was multiplied in all."""
    scaled = [
        (name, event["factor"]) for name, events in tensors.items() for event in events if event["event"] == "scaled"
    ]
    found: dict[str, float] = {}
    for name, factor in scaled:
        own = sys.intern(name)  # 10,000 records have the names of few networks
        found[own] = found.get(own, 1.0) * (math.inf if factor is None else factor)
    return found
