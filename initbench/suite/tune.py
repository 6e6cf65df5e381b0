"""The ``tune:`` block of a suite: which values every cell may try, and how many of them."""

from __future__ import annotations

import itertools
import json
import math
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from initbench.arguments import nearest, show, types_of
from initbench.randomness import derive_seed
from initbench.registry import INITIALIZERS
from initbench.suite.spec import Protocol
from initbench.training.recipe import Recipe

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from initbench.arguments import Key
    from initbench.suite.document import Document
    from initbench.suite.spec import TrialDraft

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
RATE = "recipe.lr"
Point = tuple[tuple[str, Any], ...]
"""What one try sets: pairs of key and value, the learning rate first."""
_SCALES = ("log", "linear", "times")
_DIGITS = 4
_MOST_TRIES = 1000
_DRAWS_PER_TRY = 100


class Tune(BaseModel):
    """How every cell finds values of its own; the keys beside these are those that are tuned, with their `Range`.

    Attributes:
        tries: search trials of each cell and seed.
        points: ``grid``, the same values for all; or ``random``, drawn anew for each seed, the same for all cells.
        search: ``each`` final seed has a search of its own; or one is done ``once``, and all seeds of a cell share it.
        protocols: at which values final trials are run: as the ``recipe`` has them, at the ``shared`` rate of the
            workload, at the cell's ``own`` best.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    tries: Annotated[int, Field(ge=2, le=_MOST_TRIES)] | None = None
    points: Literal["grid", "random"] = "grid"
    search: Literal["each", "once"] = "each"
    protocols: Annotated[list[Protocol], Field(min_length=1)] = [*PROTOCOLS]


class Range(NamedTuple):
    """The values of one key that is tuned.

    Attributes:
        key: ``recipe.lr``, ``initializer.tau``.
        scale: ``log`` or ``linear``, between bounds; ``times``, like ``log`` between multiples of the value that the
            suite writes, rules included; or ``list``.
        values: the bounds, or the values of the list.
        whole: whether values between the bounds are rounded to whole numbers.
    """

    key: str
    scale: Literal["log", "linear", "times", "list"]
    values: tuple[Any, ...]
    whole: bool = False

    def at(self, share: float, written: Any) -> Any:
        """Return the value at a share of the range: from 0, the lower bound, to 1; of a list, from 0 to below 1.

        With bounds a and b it is a·(b/a)^share or a + (b − a)·share, in four significant digits, so that a grid has 0.1
        where it means it, and the trial at 0.1 is the trial of a suite that says 0.1.

        Args:
            share: of the range.
            written: the value that the suite writes.
        """
        if self.scale == "list":
            return self.values[int(share * len(self.values))]
        low, high = self.values
        if self.scale == "times":
            low, high = low * written, high * written
        value = low + (high - low) * share if self.scale == "linear" else low * (high / low) ** share
        return round(value) if self.whole else float(f"{value:.{_DIGITS}g}")


class Search:
    """What a suite tunes, checked: the points that a cell tries.

    Attributes:
        block: the ``tune:`` block.
        ranges: of the keys that are tuned, the learning rate first.

    Args:
        document: for messages.
        block: as the schema has checked it.
        initializers: the names of those in the suite.

    Raises:
        SuiteError: what is wrong with a key or its values.
    """

    def __init__(self, document: Document, block: Tune, initializers: Iterable[str]) -> None:
        self.document, self.block = document, block
        keys = sorted(block.model_extra or {}, key=lambda key: key != RATE)
        if not keys:
            raise document.error(("tune",), f"tunes nothing; name what, such as {RATE}: {{log: [0.001, 1.0]}}")
        self.ranges = tuple(_range(document, key, (block.model_extra or {})[key], set(initializers)) for key in keys)
        if block.tries is None and (block.points == "random" or any(own.scale != "list" for own in self.ranges)):
            raise document.error(("tune", "tries"), "is required: the number of values that every cell tries")
        if len(set(block.protocols)) < len(block.protocols):
            raise document.error(("tune", "protocols"), "names one twice")
        if block.protocols == ["shared"] and not self.has_rate:
            raise document.error(("tune", "protocols"), f"shared is about {RATE}, which is not tuned")
        _check_recipe(document)

    @property
    def has_rate(self) -> bool:
        """Whether the learning rate is tuned."""
        return self.ranges[0].key == RATE

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """At which values final trials are run; without a tuned learning rate there is none to share."""
        return tuple(own for own in PROTOCOLS if own in self.block.protocols and (own != "shared" or self.has_rate))

    def keys(self, initializer: str) -> tuple[str, ...]:
        """Return the keys that are tuned for an initializer: those of the recipe, and of the arguments that it has."""
        return tuple(own.key for own in self._of(initializer))

    def points(self, trial: TrialDraft, seed: int) -> tuple[Point, ...]:
        """Return what a cell tries, in ascending order: where two come to the same outcome, the first is chosen.

        A grid gives every initializer as many points as `tries`: lists are crossed, and what `tries` leaves goes to the
        one key that has bounds. Random points draw each key from a stream of its own, so that two initializers try the
        same learning rates at one seed, whatever else one of them tunes.

        Args:
            trial: with the values that the suite writes.
            seed: of the final trial, for random points.

        Raises:
            SuiteError: a grid that would give this initializer another number of points than `tries`.
        """
        initializer = trial.initializer.name
        ranges = self._of(initializer)
        if not ranges:
            keys = ", ".join(own.key for own in self.ranges)
            raise self.document.error(("tune",), f"gives {initializer} nothing to try: it has no {keys}")
        is_grid = self.block.points == "grid"
        found = self._grid(trial, ranges) if is_grid else self._random(trial, ranges, seed)
        order = {own.key: own for own in ranges}
        return tuple(sorted(found, key=lambda point: [_place(order[key], value) for key, value in point]))

    def resolved(self) -> dict[str, Any]:
        """Return what a report needs: ``keys`` (name → values or bounds), and all else that the block says."""
        return {
            "keys": {own.key: self._values(own) for own in self.ranges},
            "tries": self.tries,
            "points": self.block.points,
            "search": self.block.search,
            "protocols": list(self.protocols),
        }

    @property
    def tries(self) -> int:
        """Search trials of each cell and seed."""
        lists = math.prod(len(own.values) for own in self.ranges if own.scale == "list")
        return lists if self.block.tries is None else self.block.tries

    def _values(self, own: Range) -> Any:
        """Return the values of a key: one by one where all cells try the same, else its bounds."""
        if own.scale == "list":
            return list(own.values)
        if self.block.points == "grid" and len(self.ranges) == 1 and own.scale != "times":
            return [own.at(i / (self.tries - 1), None) for i in range(self.tries)]
        return {own.scale: list(own.values)}

    def _of(self, initializer: str) -> list[Range]:
        known = {argument.name for argument in INITIALIZERS.get(initializer).arguments}
        return [own for own in self.ranges if own.key.startswith("recipe.") or own.key.partition(".")[2] in known]

    def _random(self, trial: TrialDraft, ranges: Sequence[Range], seed: int) -> list[Point]:
        """Return points that differ; draws of lists and whole numbers repeat, and a trial that repeats is no try."""
        streams = [(own, Random(derive_seed(seed, "search", own.key))) for own in ranges]  # noqa: S311  # no secret
        written = [self._written(trial, own) for own in ranges]
        found: dict[str, Point] = {}
        for _ in range(_DRAWS_PER_TRY * self.tries):
            drawn = zip(streams, written, strict=True)
            point = tuple((own.key, own.at(stream.random(), value)) for (own, stream), value in drawn)
            found.setdefault(_canonical(point), point)
            if len(found) == self.tries:
                return list(found.values())
        problem = f"are more than {trial.initializer.name} has values that differ; give it more, or fewer tries"
        raise self.document.error(("tune", "tries"), problem)

    def _written(self, trial: TrialDraft, own: Range) -> Any:
        """Return the value that the suite writes, which a range of its multiples needs."""
        value = written_value(trial, own.key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if own.scale == "times" and not (is_number and value > 0 and math.isfinite(own.values[1] * value)):
            problem = f"multiplies what the suite writes, which must be above 0 and stay finite, got {show(value)}"
            raise self.document.error(("tune", own.key, "times"), problem)
        return value

    def _grid(self, trial: TrialDraft, ranges: Sequence[Range]) -> list[Point]:
        initializer = trial.initializer.name
        bounded = [own for own in ranges if own.scale != "list"]
        lists = math.prod(len(own.values) for own in ranges if own.scale == "list")
        if len(bounded) > 1:
            both = " and ".join(own.key for own in bounded)
            raise self.document.error(("tune",), f"a grid cannot share {self.tries} tries between {both}; {_OTHERWISE}")
        each, rest = divmod(self.tries, lists)
        if rest or (each < 2 if bounded else each != 1):
            have = f"{lists} combinations of the listed values" if lists > 1 or not bounded else "one value"
            problem = f"gives {initializer} {have}, and every cell {self.tries} tries; {_OTHERWISE}"
            raise self.document.error(("tune", "tries"), problem)
        axes = [
            [(own.key, value) for value in own.values]
            if own.scale == "list"
            else [(own.key, own.at(i / (each - 1), self._written(trial, own))) for i in range(each)]
            for own in ranges
        ]
        points = list(itertools.product(*axes))
        if len(set(map(_canonical, points))) < len(points):
            if not bounded:
                raise self.document.error(("tune",), "names a value twice")
            raise self.document.error(("tune", bounded[0].key), f"has fewer than {each} values that differ")
        return points


def written_value(trial: TrialDraft, key: str) -> Any:
    """Return the value of a key such as ``recipe.lr`` that a trial has."""
    kind, _, name = key.partition(".")
    return getattr(trial.recipe, name) if kind == "recipe" else trial.initializer.arguments[name]


_OTHERWISE = "give each key a list, in numbers that agree, or points: random"


def _canonical(point: Point) -> str:
    """Return a point as text that is the same for equal values: 1 and 1.0, but not 1 and true."""
    return json.dumps([[key, float(v) if type(v) is int else v] for key, v in point])


def _place(own: Range, value: Any) -> float:
    """Return where a value stands among those of its key: numbers by size, others as they are listed."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else own.values.index(value)


def _range(document: Document, key: str, written: Any, initializers: Collection[str]) -> Range:
    """Return the range of a key.

    Raises:
        SuiteError: the key is none that can be tuned, or its values are neither bounds nor a list.
    """
    place: Key = ("tune", key)
    if _is_initializer(key, initializers):
        raise document.error(place, "cannot be tuned: it is an initializer; give each as an entry of initializers")
    types = _types(key, initializers)
    if types is None:
        valid = [*Tune.model_fields, *(f"recipe.{field}" for field in Recipe.model_fields)]
        problem = "is neither a field of the recipe nor an argument of an initializer of this suite"
        raise document.error(place, problem + nearest(key, valid, list_all=False))
    if isinstance(written, list):
        if len(written) < 2 or len({repr(value) for value in written}) < len(written):
            raise document.error(place, f"must have at least two values, each once, got {show(written)}")
        return Range(key, "list", tuple(tuple(value) if isinstance(value, list) else value for value in written))
    if not isinstance(written, dict) or len(written) != 1 or next(iter(written)) not in _SCALES:
        raise document.error(
            place, f"must be {{log: [a, b]}}, {{linear: [a, b]}}, {{times: [a, b]}} or a list, got {show(written)}"
        )
    ((scale, bounds),) = written.items()
    numbers = isinstance(bounds, list) and all(isinstance(b, int | float) and not isinstance(b, bool) for b in bounds)
    if not numbers or len(bounds) != 2 or not all(map(math.isfinite, bounds)) or not bounds[0] < bounds[1]:
        raise document.error((*place, scale), f"must be two numbers, the smaller first, got {show(bounds)}")
    if scale != "linear" and bounds[0] <= 0:
        raise document.error((*place, scale), f"must be above 0, got {show(bounds)}")
    if not math.isfinite(bounds[1] - bounds[0] if scale == "linear" else bounds[1] / bounds[0]):
        raise document.error((*place, scale), f"is wider than what numbers hold, got {show(bounds)}")
    return Range(key, scale, tuple(bounds), whole="int" in types and "float" not in types)


def _is_initializer(key: str, initializers: Collection[str]) -> bool:
    kind, _, name = key.partition(".")
    return kind == "initializer" and any(name in INITIALIZERS.get(own).initializer_arguments for own in initializers)


def _types(key: str, initializers: Collection[str]) -> set[str] | None:
    """Return the names of the types that a key's values may have; None where there is no such key."""
    kind, _, name = key.partition(".")
    if kind == "recipe" and name in Recipe.model_fields:
        return {own.__name__ for own in types_of(Recipe.model_fields[name].annotation)}
    if kind != "initializer":
        return None
    having = [a for own in initializers for a in INITIALIZERS.get(own).arguments if a.name == name]
    return {word for argument in having for word in argument.type.split(" | ")} if having else None


def _check_recipe(document: Document) -> None:
    """Refuse what would say of a tuned key something else than one value."""
    tuned: Mapping[str, Any] = document.data["tune"]
    for name, value in (document.data.get("recipe") or {}).items():
        if f"recipe.{name}" in tuned and isinstance(value, list):
            raise document.error(("recipe", name), "is tuned; write the one value that stands beside the tuned ones")
