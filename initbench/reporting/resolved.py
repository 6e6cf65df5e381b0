"""What a report needs of a suite beside its trials, in the ``resolved.json`` of its folder.

That is what it compares, and which of its cells cannot run: only the plan knows these.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import TypeAdapter

from initbench.claims.claim import Claim, Published
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError, LedgerError
from initbench.files import read_text
from initbench.ledger import RESOLVED_FILE
from initbench.reporting.plain_data import plain_data
from initbench.suite.spec import SCHEMA, TUNING_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from initbench.suite.part import Row

Refused = tuple[dict[str, Any], str]
"""A cell that cannot run: a spec as plain data, without probes and with a dataset that is not described; the reason."""


def read_compare(folder: str | Path) -> tuple[str, ...]:
    """Return the factors that a suite compares: those of its ``resolved.json``, the default where it has none.

    Raises:
        LedgerError: another version of initbench wrote the file.
        InitbenchError: the file is there and does not say it.
    """
    path = Path(folder) / RESOLVED_FILE
    compare = _read(path).get("compare", DEFAULT_COMPARE)
    if not isinstance(compare, list | tuple) or not compare or not all(isinstance(factor, str) for factor in compare):
        raise InitbenchError(f"{path}: compare must be a list of factors, got {compare!r}; give it with --compare")
    return tuple(compare)


def read_incompatible(folder: str | Path) -> tuple[Refused, ...]:
    """Return the cells of a suite that cannot run: those of its ``resolved.json``, none where it does not say it.

    Raises:
        LedgerError: another version of initbench wrote the file.
        InitbenchError: the file is there and damaged.
    """
    path = Path(folder) / RESOLVED_FILE
    entries = _read(path).get("incompatible", [])
    found: list[Refused] = []
    try:
        for entry in entries:
            before = found[-1][0] if found else {}
            spec = before | entry["spec"]
            spec["recipe"] = before.get("recipe", {}) | spec["recipe"]
            _check(spec)
            found.append((spec, str(entry["reason"])))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"incompatible is no list of specs with reasons ({error!r})"
        raise InitbenchError(f"{path}: {problem}; initbench run writes the file anew") from error
    return tuple(found)


def read_tune(folder: str | Path) -> dict[str, Any] | None:
    """Return what a suite tunes and how, as its ``resolved.json`` has it; None where it does not say it.

    Raises:
        LedgerError: another version of initbench wrote the file.
        InitbenchError: the file is there and damaged.
    """
    path = Path(folder) / RESOLVED_FILE
    tune = _read(path).get("tune")
    if tune is None:
        return None
    if not isinstance(tune, dict) or tune.get("search", "each") not in {"each", "once"}:
        raise InitbenchError(f"{path}: tune does not say what is searched; initbench run writes the file anew")
    return tune


class Stated(NamedTuple):
    """What a suite says of papers.

    Attributes:
        claims: that its trials judge.
        published: numbers that its own stand beside; None for none.
        seeds: how many it has.
    """

    claims: tuple[Claim, ...]
    published: Published | None
    seeds: int


def read_stated(folder: str | Path) -> Stated | None:
    """Return what a suite says of papers, as its ``resolved.json`` has it; None where it says nothing.

    Raises:
        LedgerError: another version of initbench wrote the file.
        InitbenchError: the file is there and damaged.
    """
    path = Path(folder) / RESOLVED_FILE
    resolved = _read(path)
    if not resolved.get("claims") and resolved.get("published") is None:
        return None
    try:
        claims = TypeAdapter(tuple[Claim, ...]).validate_python(tuple(resolved.get("claims", ())))
        published = resolved.get("published")
        numbers = None if published is None else Published.model_validate(published)
        return Stated(claims, numbers, int(resolved.get("seeds", 1)))
    except (ValueError, TypeError) as error:
        problem = f"claims and published are not as a suite has them ({str(error).splitlines()[0]})"
        raise InitbenchError(f"{path}: {problem}; initbench run writes the file anew") from error


def incompatible_entries(refused: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the cells that cannot run as ``resolved.json`` holds them.

    An entry is ``{"spec": ..., "reason": ...}``. Its spec, and the recipe in this, leave out what is as in the entry
    before: a suite may have a thousand of them, which have most in common with their neighbours.

    Args:
        refused: a plan's.
    """
    entries: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for pair in refused:
        whole = pair.spec.model_dump(mode="json")
        spec = {key: value for key, value in whole.items() if key != "probes"}
        own = _changed(spec, before) | {label: [] for label in TUNING_LABELS if label in before and label not in spec}
        if "recipe" in own:
            own["recipe"] = _changed(spec["recipe"], before.get("recipe", {}))
        entries.append({"spec": own, "reason": pair.reason})
        before = spec
    return entries


def _changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in new.items() if key not in old or old[key] != value}


def _read(path: Path) -> dict[str, Any]:
    """Return the file's content, empty where there is none."""
    try:
        resolved: dict[str, Any] = plain_data(json.loads(read_text(path)))  # pandas takes no half of a character
        schema = resolved.get("schema", SCHEMA)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InitbenchError(f"{path}: is no resolved suite ({reason}); say what is compared with --compare") from error
    if schema != SCHEMA:
        raise LedgerError(f"{path}: schema {schema}; this version of initbench reads schema {SCHEMA}")
    return resolved


def _check(spec: Mapping[str, Any]) -> None:
    """Refuse a spec of which labels cannot be made.

    Raises:
        KeyError: it lacks a key.
        TypeError: a value is of another type.
    """
    for kind in ("architecture", "initializer", "dataset"):
        if not isinstance(spec[kind]["name"], str) or not isinstance(spec[kind]["arguments"], dict):
            raise TypeError(f"{kind} must be a component")
    for key, kinds in (("suite", str), ("phase", str), ("scheme", str), ("set_by_rules", list), ("recipe", dict)):
        if not isinstance(spec[key], kinds):
            raise TypeError(f"{key} must be a {kinds.__name__}")
    for key in TUNING_LABELS:
        if not isinstance(spec.get(key, []), list):
            raise TypeError(f"{key} must be a list")
    if not spec["scheme_named_by"] or not {*spec["scheme_named_by"]} <= {"suite", "initializer"}:
        raise TypeError("scheme_named_by must be suite, initializer or both")
