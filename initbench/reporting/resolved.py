"""Reads from a suite's ``resolved.json`` the facts that a report needs, such as factors and incompatible cells.

A file of another version raises a `LedgerError`; a damaged file raises an `InitbenchError` of one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from initbench.claims.claim import Claim, Published
from initbench.comparing.treatments import DEFAULT_COMPARE
from initbench.errors import InitbenchError, LedgerError
from initbench.files import read_text
from initbench.ledger import RESOLVED_FILE
from initbench.ledger.record import StoredComponent, StoredModel, checked
from initbench.reporting.plain_data import plain_data
from initbench.suite.spec import SCHEMA

if TYPE_CHECKING:
    from initbench.suite.part import Row

Refused = tuple[dict[str, Any], str]
"""A cell that cannot run: its spec as plain data, without probes, and the reason."""


class Stated(NamedTuple):
    """The claims that a suite's trials judge, the published numbers to compare with, and its number of seeds."""

    claims: tuple[Claim, ...]
    published: Published | None
    seeds: int


class _Cell(StoredModel):
    """The parts of a spec that labels need."""

    suite: str
    architecture: StoredComponent
    scheme: str
    scheme_arguments: dict[str, Any] = Field(default={})
    initializer: StoredComponent
    dataset: StoredComponent
    recipe: dict[str, Any]
    phase: str
    set_by_rules: list[str]
    scheme_named_by: Annotated[list[Literal["suite", "initializer"]], Field(min_length=1)]
    tuned: list[str] = Field(default=[])
    protocols: list[str] = Field(default=[])


class _Entry(StoredModel):
    spec: dict[str, Any]
    reason: str


class _Tune(StoredModel, extra="allow"):
    keys: dict[str, Any] = Field(default={})
    tries: int = 1
    points: str = "grid"
    search: Literal["each", "once"] = "each"
    protocols: list[str] = Field(default=[])


class _Resolved(StoredModel):
    compare: Annotated[list[str], Field(min_length=1)] = Field(default=list(DEFAULT_COMPARE))
    incompatible: list[_Entry] = Field(default=[])
    tune: _Tune | None = None
    claims: list[Claim] = Field(default=[])
    published: Published | None = None
    seeds: int = 1
    defaults: dict[str, dict[str, int | float]] = Field(default={})


_ANEW = "initbench run writes the file anew"


def read_compare(folder: str | Path) -> tuple[str, ...]:
    """Return the factors that a suite compares; the default if the file names none."""
    return tuple(_read(folder, "{}; give it with --compare", "compare").compare)


def read_incompatible(folder: str | Path) -> tuple[Refused, ...]:
    """Return the cells of a suite that cannot run."""
    problem = f"incompatible is no list of specs with reasons ({{}}); {_ANEW}"
    refused: list[Refused] = []
    before: dict[str, Any] = {}
    for entry in _read(folder, problem, "incompatible").incompatible:
        spec = before | entry.spec
        try:
            checked(_Cell, spec)
        except ValueError as error:
            raise _damaged(folder, problem, error) from None
        spec["recipe"] = before.get("recipe", {}) | spec["recipe"]
        refused.append((spec, entry.reason))
        before = spec
    return tuple(refused)


def read_tune(folder: str | Path) -> dict[str, Any] | None:
    """Return a suite's tuning settings as plain data; None if it tunes nothing."""
    tune = _read(folder, f"tune does not say what is searched ({{}}); {_ANEW}", "tune").tune
    return None if tune is None else tune.model_dump(exclude_unset=True)


def read_defaults(folder: str | Path) -> dict[str, dict[str, int | float]]:
    """Return the defaults of the arguments that make a suite's initializers run long; empty if the file has none."""
    return _read(folder, f"defaults are no numbers by initializer and argument ({{}}); {_ANEW}", "defaults").defaults


def read_stated(folder: str | Path) -> Stated | None:
    """Return what a suite states about papers; None if it states nothing."""
    problem = f"claims and published are not as a suite has them ({{}}); {_ANEW}"
    resolved = _read(folder, problem, "claims", "published", "seeds")
    if not resolved.claims and resolved.published is None:
        return None
    return Stated(tuple(resolved.claims), resolved.published, resolved.seeds)


def incompatible_entries(refused: Iterable[Row]) -> list[dict[str, Any]]:
    """Return a plan's incompatible cells for ``resolved.json``, each as ``{"spec": ..., "reason": ...}``.

    A spec, and its recipe, omit values that equal those of the previous entry, because a thousand neighbours may
    differ in little.
    """
    entries: list[dict[str, Any]] = []
    before: dict[str, Any] = {}
    for pair in refused:
        whole = pair.spec.model_dump(mode="json")
        spec = {key: value for key, value in whole.items() if key != "probes"}
        new = _changed(spec, before) | {key: type(before[key])() for key in before if key not in spec}
        if "recipe" in new:
            new["recipe"] = _changed(spec["recipe"], before.get("recipe", {}))
        entries.append({"spec": new, "reason": pair.reason})
        before = spec
    return entries


def _changed(new: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in new.items() if key not in old or old[key] != value}


def _read(folder: str | Path, problem: str, *keys: str) -> _Resolved:
    """Return some keys of the file, whatever the other keys are; ``{}`` in `problem` is replaced by the details."""
    path = Path(folder) / RESOLVED_FILE
    try:
        data = plain_data(json.loads(read_text(path)))  # pandas rejects lone surrogates
        schema = data.get("schema", SCHEMA)
    except FileNotFoundError:
        return _Resolved()
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InitbenchError(f"{path}: is no resolved suite ({reason}); say what is compared with --compare") from error
    if schema != SCHEMA:
        raise LedgerError(f"{path}: schema {schema}; this version of initbench reads schema {SCHEMA}")
    try:
        return checked(_Resolved, {key: data[key] for key in keys if key in data})
    except ValueError as error:
        raise _damaged(folder, problem, error) from None


def _damaged(folder: str | Path, problem: str, error: ValueError) -> InitbenchError:
    return InitbenchError(f"{Path(folder) / RESOLVED_FILE}: {problem.replace('{}', str(error))}")
