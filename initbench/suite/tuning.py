"""Tuning: the ``tune:`` block of a suite, the tries of each cell, and the choice among them.

A pure function of the suite and of the results of its search trials: once these are in the ledger, it returns the final
trials. Each final seed repeats the whole procedure (Bouthillier et al., Accounting for Variance in Machine Learning
Benchmarks, MLSys 2021, the ideal estimator): it searches on the validation split with its own random streams, and then
trains from the start at the chosen values.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from initbench.arguments import Key, nearest, show, types_of
from initbench.comparing.treatments import standings
from initbench.randomness import derive_seed
from initbench.registry import INITIALIZERS
from initbench.suite.document import Document, Origin
from initbench.suite.part import Part, Row, recipe_of
from initbench.suite.spec import Protocol, TrialSpec, cell_id
from initbench.training.recipe import Recipe

PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
RATE = "recipe.lr"
Point = tuple[tuple[str, Any], ...]
"""The values of one try: pairs of key and value, the learning rate first."""
_SCALES = ("log", "linear", "times")
_DIGITS = 4
_MOST_TRIES = 1000
_DRAWS_PER_TRY = 100
_OTHERWISE = "give each key a list, with lengths that agree, or points: random"


class Tune(BaseModel):
    """How each cell tunes; the other keys of the block are tuned, with their `Range`.

    Attributes:
        tries: search trials of each cell and seed.
        points: ``grid``, the same values for all; or ``random``, drawn for each seed, the same for all cells.
        search: ``each`` final seed has its own search; or ``once``, and all seeds of a cell share it.
        protocols: the values of final trials: the ``recipe``'s, the ``shared`` rate of the workload, the cell's ``own``
            best.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    tries: Annotated[int, Field(ge=2, le=_MOST_TRIES)] | None = None
    points: Literal["grid", "random"] = "grid"
    search: Literal["each", "once"] = "each"
    protocols: Annotated[list[Protocol], Field(min_length=1)] = [*PROTOCOLS]


class Range(NamedTuple):
    """The values of one tuned key: ``recipe.lr``, ``initializer.tau``.

    Attributes:
        scale: ``log`` or ``linear``, between bounds; ``times``, like ``log`` between multiples of the value in the
            suite, rules included; or ``list``.
        values: the bounds, or the values of the list.
        whole: whether values between the bounds are rounded to whole numbers.
    """

    key: str
    scale: Literal["log", "linear", "times", "list"]
    values: tuple[Any, ...]
    whole: bool = False

    def at(self, share: float, written: Any) -> Any:
        """Return the value at a share of the range: from 0, the lower bound, to 1; for a list, from 0 to below 1.

        With bounds a and b it is a·(b/a)^share or a + (b − a)·share, rounded to four significant digits, so that a grid
        contains exactly 0.1 and the trial there is the trial of a suite that says 0.1. `written` is the suite's value.
        """
        if self.scale == "list":
            return self.values[int(share * len(self.values))]
        low, high = self.values
        if self.scale == "times":
            low, high = low * written, high * written
        value = low + (high - low) * share if self.scale == "linear" else low * (high / low) ** share
        return round(value) if self.whole else float(f"{value:.{_DIGITS}g}")

    def order(self, value: Any) -> float:
        return value if _is_number(value) else self.values.index(value)


class Search:
    """The tuning of a suite, checked: the points that a cell tries; `ranges` has the learning rate first.

    An invalid key or value raises a SuiteError. `initializers` are the names of the suite's.
    """

    def __init__(self, document: Document, block: Tune, initializers: Collection[str]) -> None:
        self.document, self.block = document, block
        tuned = block.model_extra or {}
        keys = sorted(tuned, key=lambda key: key != RATE)
        if not keys:
            raise document.error(("tune",), f"tunes nothing; add a key, such as {RATE}: {{log: [0.001, 1.0]}}")
        self.ranges = tuple(_range(document, key, tuned[key], initializers) for key in keys)
        self.has_rate = self.ranges[0].key == RATE
        lists = math.prod(len(of.values) for of in self.ranges if of.scale == "list")
        self.tries = lists if block.tries is None else block.tries
        if block.tries is None and (block.points == "random" or any(of.scale != "list" for of in self.ranges)):
            raise document.error(("tune", "tries"), "is required: the number of values that every cell tries")
        if len(set(block.protocols)) < len(block.protocols):
            raise document.error(("tune", "protocols"), "names one twice")
        if block.protocols == ["shared"] and not self.has_rate:
            raise document.error(("tune", "protocols"), f"shared needs a tuned {RATE}")
        for name, value in (document.data.get("recipe") or {}).items():
            if f"recipe.{name}" in tuned and isinstance(value, list):
                problem = "is tuned; write a single value, to which the tuned ones are compared"
                raise document.error(("recipe", name), problem)

    @property
    def protocols(self) -> tuple[Protocol, ...]:
        """The protocols of final trials; without a tuned learning rate there is none to share."""
        asked = self.block.protocols
        return tuple(name for name in PROTOCOLS if name in asked and (name != "shared" or self.has_rate))

    def keys(self, initializer: str) -> tuple[str, ...]:
        return tuple(of.key for of in self._ranges_of(initializer))

    def points(self, trial: TrialSpec, seed: int) -> list[Point]:
        """Return the tries of a cell in ascending order; of equal outcomes the first is chosen.

        A grid gives every initializer `tries` points: lists are crossed, and a key with bounds gets the remaining
        factor. Random points draw each key from its own stream, so two initializers try the same learning rates at one
        seed, whatever else one of them tunes.

        Args:
            trial: with the values in the suite.
            seed: of the final trial, for random points.
        """
        initializer = trial.initializer.name
        ranges = self._ranges_of(initializer)
        if not ranges:
            keys = ", ".join(of.key for of in self.ranges)
            raise self.document.error(("tune",), f"gives {initializer} nothing to try: it has no {keys}")
        is_grid = self.block.points == "grid"
        points = self._grid(trial, ranges) if is_grid else self._random(trial, ranges, seed)
        return sorted(points, key=lambda point: [of.order(v) for of, (_, v) in zip(ranges, point, strict=True)])

    def resolved(self) -> dict[str, Any]:
        """Return the part that a report needs: ``keys`` (name → values or bounds), and the rest of the block."""
        return {
            "keys": {of.key: self._shown(of) for of in self.ranges},
            "tries": self.tries,
            "points": self.block.points,
            "search": self.block.search,
            "protocols": list(self.protocols),
        }

    def _shown(self, of: Range) -> Any:
        """Return the values of a key if all cells try the same ones, else its bounds."""
        if of.scale == "list":
            return list(of.values)
        if self.block.points == "grid" and len(self.ranges) == 1 and of.scale != "times":
            return [of.at(i / (self.tries - 1), None) for i in range(self.tries)]
        return {of.scale: list(of.values)}

    def _ranges_of(self, initializer: str) -> list[Range]:
        known = {argument.name for argument in INITIALIZERS.get(initializer).arguments}
        return [of for of in self.ranges if of.key.startswith("recipe.") or of.key.partition(".")[2] in known]

    def _random(self, trial: TrialSpec, ranges: Sequence[Range], seed: int) -> list[Point]:
        """Return distinct points; lists and whole numbers repeat draws, and a repeated trial is not another try."""
        streams = [Random(derive_seed(seed, "search", of.key)) for of in ranges]  # noqa: S311  # no secret
        written = [self._written(trial, of) for of in ranges]
        points: dict[str, Point] = {}
        for _ in range(_DRAWS_PER_TRY * self.tries):
            drawn = zip(ranges, streams, written, strict=True)
            point = tuple((of.key, of.at(stream.random(), value)) for of, stream, value in drawn)
            points.setdefault(_canonical(point), point)
            if len(points) == self.tries:
                return list(points.values())
        name = trial.initializer.name
        problem = f"exceeds the number of different settings of {name}; give it more values, or fewer tries"
        raise self.document.error(("tune", "tries"), problem)

    def _written(self, trial: TrialSpec, of: Range) -> Any:
        """Return the value in the suite, whose multiples the range contains."""
        value = _value(trial, of.key)
        if of.scale == "times" and not (_is_number(value) and value > 0 and math.isfinite(of.values[1] * value)):
            problem = f"multiplies the value in the suite, which must be above 0 and stay finite, got {show(value)}"
            raise self.document.error(("tune", of.key, "times"), problem)
        return value

    def _grid(self, trial: TrialSpec, ranges: Sequence[Range]) -> list[Point]:
        initializer = trial.initializer.name
        bounded = [of for of in ranges if of.scale != "list"]
        lists = math.prod(len(of.values) for of in ranges if of.scale == "list")
        if len(bounded) > 1:
            both = " and ".join(of.key for of in bounded)
            raise self.document.error(("tune",), f"a grid cannot share {self.tries} tries between {both}; {_OTHERWISE}")
        each, rest = divmod(self.tries, lists)
        if rest or (each < 2 if bounded else each != 1):
            have = f"{lists} combinations of the listed values" if lists > 1 or not bounded else "one value"
            problem = f"gives {initializer} {have}, and every cell {self.tries} tries; {_OTHERWISE}"
            raise self.document.error(("tune", "tries"), problem)
        axes = [
            [(of.key, value) for value in of.values]
            if of.scale == "list"
            else [(of.key, of.at(i / (each - 1), self._written(trial, of))) for i in range(each)]
            for of in ranges
        ]
        points = list(itertools.product(*axes))
        if len(set(map(_canonical, points))) < len(points):
            if not bounded:
                raise self.document.error(("tune",), "gives a value twice")
            raise self.document.error(("tune", bounded[0].key), f"has fewer than {each} different values")
        return points


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _canonical(point: Point) -> str:
    """Return a point as text that is the same for equal values: for 1 and 1.0, but not for 1 and true."""
    return json.dumps([[key, float(v) if type(v) is int else v] for key, v in point])


def _value(trial: TrialSpec, key: str) -> Any:
    kind, _, name = key.partition(".")
    return getattr(trial.recipe, name) if kind == "recipe" else trial.initializer.arguments[name]


def _range(document: Document, key: str, written: Any, initializers: Collection[str]) -> Range:
    at: Key = ("tune", key)
    kind, _, name = key.partition(".")
    components = [INITIALIZERS.get(initializer) for initializer in initializers if kind == "initializer"]
    if any(name in component.initializer_arguments for component in components):
        raise document.error(at, "cannot be tuned: it is an initializer; give each as an entry of initializers")
    having = [argument for component in components for argument in component.arguments if argument.name == name]
    if kind == "recipe" and name in Recipe.model_fields:
        types = {admitted.__name__ for admitted in types_of(Recipe.model_fields[name].annotation)}
    elif having:
        types = {word for argument in having for word in argument.type.split(" | ")}
    else:
        valid = [*Tune.model_fields, *(f"recipe.{field}" for field in Recipe.model_fields)]
        problem = "is neither a field of the recipe nor an argument of an initializer of this suite"
        raise document.error(at, problem + nearest(key, valid, list_all=False))
    if isinstance(written, list):
        if len(written) < 2 or len({repr(value) for value in written}) < len(written):
            raise document.error(at, f"must have at least two values, each once, got {show(written)}")
        return Range(key, "list", tuple(tuple(value) if isinstance(value, list) else value for value in written))
    if not isinstance(written, dict) or len(written) != 1 or next(iter(written)) not in _SCALES:
        forms = "{log: [a, b]}, {linear: [a, b]}, {times: [a, b]} or a list"
        raise document.error(at, f"must be {forms}, got {show(written)}")
    ((scale, bounds),) = written.items()
    numbers = isinstance(bounds, list) and all(map(_is_number, bounds))
    if not numbers or len(bounds) != 2 or not all(map(math.isfinite, bounds)) or not bounds[0] < bounds[1]:
        raise document.error((*at, scale), f"must be two numbers, the smaller first, got {show(bounds)}")
    if scale != "linear" and bounds[0] <= 0:
        raise document.error((*at, scale), f"must be above 0, got {show(bounds)}")
    if not math.isfinite(bounds[1] - bounds[0] if scale == "linear" else bounds[1] / bounds[0]):
        raise document.error((*at, scale), f"is wider than the range of floating-point numbers, got {show(bounds)}")
    return Range(key, scale, tuple(bounds), whole="int" in types and "float" not in types)


class Searched(NamedTuple):
    """The result of a search trial on the validation split.

    `value` is its primary metric, turned so that lower is better; +∞ if it diverged. `is_trained` says whether it is
    better than chance; true if that is unknown.
    """

    value: float
    is_trained: bool = True


def own_choice(results: Sequence[Searched]) -> int:
    """Return the index of the best try; the first of equals, and if all diverged."""
    return min(range(len(results)), key=lambda index: (results[index].value, index))


def shared_choice(results: Sequence[Mapping[float, Searched]]) -> float | None:
    """Return the learning rate that the treatments of a workload share; None if there is no rate that all tried.

    Each treatment ranks its own rates: first those that train, by value, then all that do not train, tied, then all
    that diverged, tied. Ties share their mean rank. The rate with the lowest mean rank over the treatments is chosen,
    the smallest of equals. So each treatment has one vote, whatever the range of its metric.
    """
    common = sorted(set.intersection(*(set(best) for best in results))) if results else []
    if not common:
        return None
    means = [0.0] * len(common)
    for best in results:
        order = [_order(best[rate]) for rate in common]
        for index, key in enumerate(order):  # twice the mean rank, from 0: integers, whose sums are exact
            means[index] += sum(other < key for other in order) + sum(other <= key for other in order)
    return min(zip(means, common, strict=True))[1]


def _order(result: Searched) -> tuple[int, float]:
    if result.value == math.inf:
        return 2, 0.0
    return (0, result.value) if result.is_trained else (1, 0.0)


def best_at_rates(rates: Sequence[float], results: Sequence[Searched]) -> dict[float, Searched]:
    """Return the best try at each rate, among tries that differ in another tuned value; see `shared_choice`."""
    best: dict[float, Searched] = {}
    for rate, result in zip(rates, results, strict=True):
        if rate not in best or result.value < best[rate].value:
            best[rate] = result
    return best


class Tries:
    """Makes a row for each try of a row; an initializer with the same values is checked once.

    `first_seed` is the seed of the search that all seeds share if it is done once.
    """

    def __init__(self, document: Document, search: Search, first_seed: int) -> None:
        self.document, self.search, self.first_seed = document, search, first_seed
        self._initializers: dict[tuple[Part, Point], Part] = {}

    def of(self, row: Row) -> tuple[Row, ...]:
        seed = self.search_seed(row.spec)
        return tuple(self._try(row, point) for point in self.search.points(row.spec, seed))

    def search_seed(self, spec: TrialSpec) -> int:
        return spec.seed if self.search.block.search == "each" else self.first_seed

    def _try(self, row: Row, point: Point) -> Row:
        recipe, initializer = row.spec.recipe, row.parts.initializer
        fields = {key.partition(".")[2]: value for key, value in point if key.startswith("recipe.")}
        if fields:
            recipe = recipe_of(self.document, recipe.model_dump() | fields, ("tune", "recipe"))
        values = tuple((key.partition(".")[2], value) for key, value in point if key.startswith("initializer."))
        if values:
            key = (initializer, values)
            if key not in self._initializers:
                origin = Origin(self.document, ("tune", "initializer"))
                self._initializers[key] = initializer.changed(dict(values), origin)
            initializer = self._initializers[key]
        spec = row.spec.model_copy(update={"recipe": recipe, "initializer": initializer.spec})
        return replace(row, spec=spec, parts=row.parts._replace(initializer=initializer))


@dataclass(frozen=True)
class TunedTrial:
    """One seed of one cell: its searches and final trials.

    Attributes:
        row: the trial with the values in the suite.
        searches: the search trials, in ascending order of their values.
        finals: the final trials that are known, each with the protocols that lead to it.
        awaited: the protocols whose final trial is known only when searches are in the ledger.
    """

    row: Row
    searches: tuple[TrialSpec, ...]
    finals: tuple[TrialSpec, ...]
    awaited: tuple[Protocol, ...]


def search(
    rows: Sequence[Row], tries: Tries, compare: Sequence[str], results: Mapping[str, Searched]
) -> tuple[list[Row], tuple[TunedTrial, ...]]:
    """Return the rows of all search trials and of the known final trials, and the tuning of the selected trials."""
    _check_apart(rows, tries.document)
    searches = [_searches(row, tries.search_seed(row.spec)) for row in rows]
    outcomes = [
        [results[trial.id] for trial in trials] if all(trial.id in results for trial in trials) else None
        for trials in searches
    ]
    rates = _shared_rates(rows, outcomes, tries, compare)
    protocols = tries.search.protocols
    tuned = [_tuned(*each, protocols) for each in zip(rows, searches, outcomes, rates, strict=True)]
    selected = tuple(trial for trial in tuned if trial.row.status == "run")
    known: dict[str, Row] = {}
    for group in (selected, [trial for trial in tuned if trial.row.status != "run"]):
        for row in _in_order(group):
            known.setdefault(row.spec.id, row)
    return list(known.values()), selected


def _searches(row: Row, seed: int) -> tuple[TrialSpec, ...]:
    labels = {"phase": "search", "probes": (), "seed": seed}
    return tuple(_at(row.spec, one, **labels) for one in row.tries)


def _at(written: TrialSpec, one: Row, **labels: Any) -> TrialSpec:
    return written.model_copy(update={"recipe": one.spec.recipe, "initializer": one.spec.initializer, **labels})


def _check_apart(rows: Iterable[Row], document: Document) -> None:
    known: dict[tuple[str, int], TrialSpec] = {}
    for row in rows:
        trial = row.spec
        other = known.setdefault((cell_id(trial.identity, trial.tuned), trial.seed), trial)
        if other is not trial:
            key = next(key for key in trial.tuned if _value(trial, key) != _value(other, key))
            raise document.error(("tune", key), "is tuned, and the suite gives it several values too")


def _shared_rates(
    rows: Sequence[Row], outcomes: Sequence[list[Searched] | None], tries: Tries, compare: Sequence[str]
) -> list[tuple[float | None, bool]]:
    """Return for each trial the rate that its workload shares at its seed, and whether that is known."""
    if "shared" not in tries.search.protocols:
        return [(None, True)] * len(rows)
    workloads: dict[int, tuple[Any, int]] = {}
    members: dict[tuple[Any, int], set[int]] = defaultdict(set)
    for standing in standings([row.spec.model_dump(mode="json") for row in rows], compare):
        workload = standing.workload, rows[standing.trial].spec.seed
        members[workload].add(standing.trial)
        workloads.setdefault(standing.trial, workload)
    rates: dict[tuple[Any, int], tuple[float | None, bool]] = {}
    for workload, trials in members.items():
        tried = [([one.spec.recipe.lr for one in rows[i].tries], outcomes[i]) for i in sorted(trials)]
        if not set[float].intersection(*(set(lrs) for lrs, _ in tried)) and tries.search.protocols == ("shared",):
            problem = "shared needs a rate that all treatments of a workload try, and some workload has none"
            raise tries.document.error(("tune", "protocols"), problem)
        best = [best_at_rates(lrs, results) for lrs, results in tried if results is not None]
        rates[workload] = (shared_choice(best), True) if len(best) == len(tried) else (None, False)
    return [rates[workloads[i]] for i in range(len(rows))]


def _tuned(
    row: Row,
    searches: tuple[TrialSpec, ...],
    outcomes: list[Searched] | None,
    shared: tuple[float | None, bool],
    protocols: tuple[Protocol, ...],
) -> TunedTrial:
    rate, is_known = shared
    chosen: dict[Protocol, Row | None] = {
        "recipe": row,
        "own": None if outcomes is None else row.tries[own_choice(outcomes)],
    }
    if not is_known or outcomes is None:
        chosen["shared"] = None
    elif rate is not None:
        at_rate = [index for index, one in enumerate(row.tries) if one.spec.recipe.lr == rate]
        chosen["shared"] = row.tries[at_rate[own_choice([outcomes[index] for index in at_rate])]]
    asked = [protocol for protocol in protocols if protocol in chosen]
    finals: dict[str, TrialSpec] = {}
    for protocol in asked:
        if (one := chosen[protocol]) is not None:
            trial = _at(row.spec, one)
            known = finals.get(trial.id, trial)
            finals[trial.id] = known.model_copy(update={"protocols": (*known.protocols, protocol)})
    awaited = tuple(protocol for protocol in asked if chosen[protocol] is None)
    return TunedTrial(row, searches, tuple(finals.values()), awaited)


def _in_order(tuned: Iterable[TunedTrial]) -> list[Row]:
    """Return a row for each known trial, in the order in which they run.

    Seed by seed, all cells try their first value before their second, so that a network initialized for one rate is
    there for the next; the final trials follow.
    """
    by_seed: dict[int, list[TunedTrial]] = defaultdict(list)
    for trial in tuned:
        by_seed[trial.row.spec.seed].append(trial)
    ordered: list[tuple[TunedTrial, TrialSpec]] = []
    for group in by_seed.values():
        most = max(len(trial.searches) for trial in group)
        ordered += [(trial, trial.searches[n]) for n in range(most) for trial in group if n < len(trial.searches)]
        ordered += [(trial, final) for trial in group for final in trial.finals]
    return [replace(trial.row, spec=spec, tries=()) for trial, spec in ordered]
