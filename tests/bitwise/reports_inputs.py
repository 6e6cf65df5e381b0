"""What is done to a set of trials so that one version reports on it what the other does by itself.

Of each reason for which numbers may differ the cause can be put into, or taken out of, the records. Without the causes
both versions have to agree; with a cause put in by hand the old version has to come to the numbers of the new one.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Record = dict[str, Any]
    Records = Sequence[Mapping[str, Any]]

STANDARD_ERRORS, SHARE = 2.576, 0.02
"""A cell trains where its median is better than chance by more than this many standard errors of chance, and by more
than this share of the distance from chance to the best value."""
TIED = 2.0  # a test error that no trial can have: behind every cell that trained, before every diverged one
_LABELS = {"suite", "set_by_rules", "scheme_named_by", "tuned", "protocols", "seed", "probes"}


def without_causes(records: Records) -> list[Record]:
    """Return the trials without what 0.1 did not know: chance levels, and schemes that initializers bring."""
    found = copy.deepcopy([dict(record) for record in records])
    for record in found:
        record["spec"]["scheme_named_by"] = ["suite"]
        for metric in record["task"].get("metrics", {}).values():
            metric["chance"] = metric["chance_standard_error"] = None
    return found


def brings_schemes(records: Records) -> bool:
    """Return whether an initializer brings the scheme of some trial."""
    return any("initializer" in record["spec"]["scheme_named_by"] for record in records)


def with_schemes_moved(records: Records) -> list[Record]:
    """Return the trials as if a scheme that an initializer brings were a part of the initializer.

    Such a trial is put on the network without the scheme. One whose scheme the suite names as well stands in both
    places, as a report has it.
    """
    found = []
    for record in copy.deepcopy([dict(record) for record in records]):
        named_by = record["spec"]["scheme_named_by"]
        if "suite" in named_by:
            found.append(record)
        if "initializer" in named_by:
            again = hashlib.sha256(f"{record['id']} moved".encode()).hexdigest()
            own = {"id": again} if "suite" in named_by else {}
            found.append(copy.deepcopy(record) | own)
            found[-1]["spec"]["scheme"] = "standard"
    return found


def chance_of(record: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Return chance, its standard error and the best value of a trial's outcome; None where chance is not known."""
    metric = record["task"].get("metrics", {}).get(record["task"].get("primary"))
    if not metric or metric.get("chance") is None:
        return None
    return metric["chance"], metric.get("chance_standard_error") or 0.0, metric["best"]


def trains(error: float, chance: tuple[float, float, float] | None) -> bool:
    """Return whether a median test error is better than chance, by the definition that the documentation gives.

    Args:
        error: of the cell, not +∞.
        chance: as from `chance_of`.
    """
    if chance is None:
        return True
    level, standard_error, best = chance
    gained = level - error
    return gained > STANDARD_ERRORS * standard_error and gained > SHARE * (level - best)


def untrained(records: Records) -> set[str]:
    """Return the ids of the finished trials in cells that did not train."""
    cells: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        if record["status"] != "failed":
            own = {key: value for key, value in record["spec"].items() if key not in _LABELS}
            cells[json.dumps(own, sort_keys=True)].append(record)
    found = set()
    for cell in cells.values():
        errors = {r["spec"]["seed"]: np.inf if r["status"] == "diverged" else r["metrics"]["test_error"] for r in cell}
        median = float(np.median(list(errors.values())))
        chances = [chance for record in cell if (chance := chance_of(record))]
        if np.isfinite(median) and chances and not trains(median, chances[0]):
            found |= {record["id"] for record in cell if record["status"] == "finished"}
    return found


def with_untrained_tied(records: Records, ids: Iterable[str]) -> list[Record]:
    """Return the trials with one and the same test error for those of cells that did not train, worse than any.

    Args:
        records: the trials.
        ids: as from `untrained`.
    """
    chosen = set(ids)
    return [
        {**record, "metrics": record["metrics"] | {"test_error": TIED}} if record["id"] in chosen else dict(record)
        for record in records
    ]
