"""Where each trial stands in a comparison, worked out once for all trials that differ in their seed alone."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from initbench.comparing.labels import initializer_labels, nested_labels
from initbench.comparing.treatments import Standing, check_compare, standings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OF_ONE_TRIAL = {"seed", "probes"}
"""What of a spec, and of an identity, has no part in the cell of its trial."""


class Place(NamedTuple):
    """One place of a trial.

    Attributes:
        trial: its index.
        is_first: whether it is the trial's first place.
        standing: of the trial, or of one that stands where it does.
        arguments: the columns of the results frame that its spec alone makes.
    """

    trial: int
    is_first: bool
    standing: Standing
    arguments: dict[str, Any]


def places(specs: Sequence[Mapping[str, Any]], compare: Sequence[str]) -> Iterator[Place]:
    """Yield the places of each trial, in the order of the trials and of their `suite.treatments.standings`.

    Args:
        specs: `TrialSpec`s as plain data; those that share their parts (`sharing.Shared`) are worked out together.
        compare: the factors that make the treatment.

    Raises:
        InitbenchError: no trial has a factor of `compare`, or it stands twice.
    """
    each, kind_of = kinds(specs)
    check_compare(compare, each)
    labels, nested = initializer_labels(each), nested_labels([spec["initializer"] for spec in each])
    arguments = [
        {"initializer": label} | _arguments(spec, inner)
        for spec, label, inner in zip(each, labels, nested, strict=True)
    ]
    found: dict[int, list[Standing]] = defaultdict(list)
    for standing in standings(each, compare):
        found[standing.trial].append(standing)
    for trial, kind in enumerate(kind_of):
        for i, standing in enumerate(found[kind]):
            yield Place(trial, i == 0, standing, arguments[kind])


def kinds(specs: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[int]]:
    """Return the first spec of each kind, and for each spec the place of its kind among these.

    Specs of one kind share all but the seed and the probes, so that they stand at the same places.

    Args:
        specs: `TrialSpec`s as plain data, as `frame.slim` leaves them.
    """
    numbers: dict[tuple[Any, ...], int] = {}
    kind_of = [numbers.setdefault(_kind(spec), len(numbers)) for spec in specs]
    first = dict(zip(reversed(kind_of), reversed(specs), strict=True))
    return [first[kind] for kind in range(len(numbers))], kind_of


def _kind(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what is equal for specs of one kind."""
    return tuple(
        id(value) if isinstance(value, dict | list | tuple) else value
        for key, value in spec.items()
        if key not in OF_ONE_TRIAL
    )


def _arguments(spec: Mapping[str, Any], nested: Mapping[str, str]) -> dict[str, Any]:
    initializer = spec["initializer"]["arguments"] | nested
    return {
        **{f"architecture.{key}": _plain(value) for key, value in spec["architecture"]["arguments"].items()},
        **{f"initializer.{key}": _plain(value) for key, value in initializer.items()},
        **{f"recipe.{key}": _plain(value) for key, value in spec["recipe"].items()},
    }


def _plain(value: Any) -> Any:
    """Return an argument as a cell of a table: null as missing, a list or a mapping as text."""
    if value is None:
        return math.nan
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
