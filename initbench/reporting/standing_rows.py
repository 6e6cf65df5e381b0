"""Where each trial is compared, worked out once for all trials that differ in their seed alone."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from initbench.comparing.labels import (
    Labels,
    architecture_label,
    component_label,
    initializer_labels,
    nested_components,
)
from initbench.comparing.treatments import check_compare, standings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OF_ONE_TRIAL = {"seed", "probes"}
"""What of a spec, and of an identity, has no part in the cell of its trial."""


def standing_rows(
    specs: Sequence[Mapping[str, Any]], compare: Sequence[str], labels: Labels
) -> list[tuple[int, bool, dict[str, Any]]]:
    """Return a row for each standing of each trial: the trial's index, whether it is its first, and columns.

    Args:
        specs: `TrialSpec`s as plain data; those that share their parts (`sharing.Shared`) are worked out together.
        compare: the factors that make the treatment.
        labels: makes the labels among the columns, which are all that the spec alone tells.

    Raises:
        InitbenchError: no trial has a factor of `compare`, or it stands twice.
    """
    each, kind_of = kinds(specs)
    check_compare(compare, each)
    initializers, nested = initializer_labels(each), nested_components([spec["initializer"] for spec in each])
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for trial, scheme_named_by, treatment, workload in standings(each, compare):
        part, rest = labels.part(treatment)
        rows[trial].append(
            {
                "initializer": initializers[trial],
                **_arguments(each[trial], {key: component_label(own) for key, own in nested[trial].items()}),
                "treatment": labels.treatment(treatment),
                "workload": labels.workload(workload),
                "architecture_label": architecture_label(workload),
                "scheme_named_by": scheme_named_by,
                "part": part,
                "rest": rest,
            }
        )
    return [(trial, i == 0, row) for trial, kind in enumerate(kind_of) for i, row in enumerate(rows[kind])]


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
