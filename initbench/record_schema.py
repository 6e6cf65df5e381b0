"""Whether plain data are the record of a trial: types deep inside, and an identity that comes to the id.

A record is data that may have been cut off, edited by hand or written by another program. What reads it need not ask
again: a number is a number, and a label has what it is made of. Keys that are not known here are left alone, so that a
later version may add some.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from initbench.arguments import explain, show
from initbench.suite.spec import digest
from initbench.training.recipe import RECIPE_VERSION, Count, Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LARGEST_INTEGER = 2**63 - 1
_MOST_STEPS = 2**53
_MOST_NESTED = 40
_REASON = "_reason"
_FORMAT = re.compile(r"[^{}]{0,20}\{:[^{}]{0,20}\}[^{}]{0,20}")
_RECIPE_DEFAULTS = Recipe().model_dump(mode="json")
_COMPONENTS = ("architecture", "initializer", "dataset")


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _Component(_Part):
    name: str
    arguments: dict[str, Any]
    version: int = 1
    source: str | None = None


class _Inputs(_Part):
    shape: list[int]


class _Dataset(_Component):
    task: str
    inputs: _Inputs
    outputs: int
    content: str | None = None


class _Recipe(_Part):
    epochs: Annotated[int, Field(ge=0)]
    steps: Count | None = None
    batch_size: Count
    optimizer: str
    lr: float


class _Spec(_Part):
    suite: str
    architecture: _Component
    scheme: str
    initializer: _Component
    dataset: _Dataset
    recipe: _Recipe
    probes: list[_Component]
    seed: int
    phase: Literal["search", "final"]
    set_by_rules: list[str]
    scheme_named_by: Annotated[list[Literal["suite", "initializer"]], Field(min_length=1)]
    tuned: list[Annotated[str, Field(pattern=r"^(recipe|initializer)\.")]] = []
    protocols: list[Literal["recipe", "shared", "own"]] = []


class _Metric(_Part):
    name: str
    better: Literal["lower", "higher"]
    label: str
    unit: str
    difference_unit: str
    scale: float
    show: str
    best: float | None
    primary: bool
    chance: float | None
    chance_standard_error: float | None
    split: str


class _Task(_Part):
    name: str
    primary: str
    metrics: dict[str, _Metric]


class _Conditions(_Part):
    saturated: bool | None = None


class Probe(_Part):
    """A measurement of a record; `check_probe` checks its values."""

    name: str
    kind: Literal["scalar", "curve", "per_layer"]
    unit: str = ""
    log: bool = False
    conditions: _Conditions = _Conditions()


class _Environment(_Part):
    device: str | None = None
    processor: str | None = None
    host: str | None = None


class _Error(_Part):
    type: str
    message: str
    traceback: str


class _Record(_Part):
    id: str
    spec: _Spec
    status: Literal["finished", "diverged", "failed"]
    identity: dict[str, Any]
    task: dict[str, Any]
    metrics: dict[str, Any]
    history: list[dict[str, Any]]
    initialization: dict[str, Any]
    probes: list[Probe]
    environment: _Environment
    timing: dict[str, Any]
    error: _Error | None


def check_record(data: Mapping[str, Any]) -> None:
    """Check that plain data are a record of this version's schema, whole and as it was written.

    Args:
        data: as `TrialRecord.to_json` returns it.

    Raises:
        ValueError: they are not; one line says where and why.
    """
    try:
        _Record.model_validate(data)
        if data["task"] or data["status"] != "failed":
            _Task.model_validate(data["task"])
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in details["loc"]) or "the record"
        raise ValueError(f"{place} {explain(details)}") from None
    check_nesting(data)
    _check_task(data["task"], data["metrics"])
    _check_numbers(data["metrics"], "metrics")
    _check_numbers(data["timing"], "timing", data["timing"])
    check_history(data["history"], data["spec"]["recipe"])
    for probe in data["probes"]:
        check_probe(probe)
    check_initialization(data["initialization"])
    _check_outcome(data)
    _check_identity(data)


def _check_task(task: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if not task:
        return
    metrics = task["metrics"]
    # A recipe without a step comes to measurements alone, and says of no metric how it reads.
    if task["primary"] not in metrics and values.get(task["primary"]) is not None:
        raise ValueError(f"task.primary, {show(task['primary'])}, is none of its metrics")
    for name, metric in metrics.items():
        text = metric["show"]
        try:
            # A width of many digits would take as much memory.
            readable = _FORMAT.fullmatch(text) and not re.search(r"\d{3}", text) and bool(text.format(1.0))
        except (ValueError, TypeError, LookupError, AttributeError):
            readable = False
        if not readable:
            raise ValueError(f"task.metrics.{name}.show is no format of a number, got {show(text)}")


def _check_numbers(values: Mapping[str, Any], place: str, needed: Iterable[str] = ()) -> None:
    """Refuse values that are neither numbers nor null, but for the reasons beside these."""
    for name, value in values.items():
        if value is None or _is_number(value) or (name.endswith(_REASON) and isinstance(value, str)):
            continue
        raise ValueError(f"{place}.{name} must be a number, got {show(value)}")
    for name in needed:
        if values.get(name) is None:
            raise ValueError(f"{place}.{name} is required")


def check_history(history: Iterable[Mapping[str, Any]], recipe: Mapping[str, Any]) -> None:
    """Refuse entries that are not of numbers, or of no step of the recipe."""
    trains = recipe["epochs"] > 0 or recipe.get("steps") is not None
    for index, entry in enumerate(history):
        _check_numbers(entry, f"history.{index}", ("step", "epoch"))
        for name in ("step", "epoch"):
            if not trains or not 0 <= entry[name] <= _MOST_STEPS:
                raise ValueError(f"history.{index}.{name} is none of the recipe's, got {show(entry[name])}")


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is int and -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER


def check_probe(probe: Mapping[str, Any]) -> None:
    """Refuse values that a measurement of this kind cannot have."""
    place, kind = f"the probe {show(probe['name'])}", probe["kind"]
    if kind == "scalar":
        _check_numbers({"value": probe.get("value", "nothing")}, place)
        return
    if kind == "per_layer":
        values = probe.get("values")
        if not isinstance(values, dict):
            raise _wrong(f"{place}: values must be a mapping, got {show(values)}")
        _check_each(values.values(), f"{place}: values")
        return
    lists = [probe.get(axis) for axis in ("x", "y")]
    if not all(isinstance(values, list) for values in lists) or len({len(values or ()) for values in lists}) != 1:
        raise ValueError(f"{place}: x and y must be lists of the same length")
    for values in lists:
        _check_each(values or (), place)
    if not isinstance(probe.get("over"), str):
        raise _wrong(f"{place}: over must be a text, got {show(probe.get('over'))}")


def _check_each(values: Iterable[Any], place: str) -> None:
    for value in values:
        if value is not None and not _is_number(value):
            raise ValueError(f"{place} must be numbers, got {show(value)}")


def check_initialization(initialization: Mapping[str, Any]) -> None:
    """Refuse an account of an initialization that a report could not read."""
    kinds: dict[str, type] = {"history": list, "tensors": dict, "cost": dict}
    for name, kind in kinds.items():
        value = initialization.get(name, kind())
        if not isinstance(value, kind):
            raise _wrong(f"initialization.{name} must be a {kind.__name__}, got {show(value)}")
    for index, entry in enumerate(initialization.get("history", [])):
        step = entry.get("step", index) if isinstance(entry, dict) else None
        if not _is_number(step):
            raise ValueError(f"initialization.history.{index} must be a mapping with a number as its step")
    for name, value in initialization.get("cost", {}).items():
        if not _is_number(value):
            raise ValueError(f"initialization.cost.{name} must be a number, got {show(value)}")
    for name, events in initialization.get("tensors", {}).items():
        _check_events(events, f"initialization.tensors.{name}")


def _check_events(events: Any, place: str) -> None:
    for event in events if isinstance(events, list) else [None]:
        if not isinstance(event, dict) or not isinstance(event.get("event"), str):
            raise _wrong(f"{place} must be a list of events")
        if event["event"] == "scaled":
            _check_numbers({"factor": event.get("factor", "nothing")}, place)


def _check_outcome(data: Mapping[str, Any]) -> None:
    """Refuse a status that the rest of the record denies."""
    if (data["error"] is not None) != (data["status"] == "failed"):
        raise ValueError(f"status is {data['status']}, and the error {'is not' if data['error'] else 'is'} null")


def _check_identity(data: Mapping[str, Any]) -> None:
    """Refuse an identity that does not come to the id, and a spec that is another trial's."""
    identity, spec = data["identity"], data["spec"]
    if digest(identity) != data["id"]:
        raise ValueError("its id is not that of its identity, so it was edited")
    if missing := next((name for name in (*_COMPONENTS, "recipe") if name not in identity), None):
        raise ValueError(f"its identity lacks {missing}")
    for kind in _COMPONENTS:
        if not _within(identity[kind], spec[kind]):
            raise ValueError(f"spec.{kind} is not that of its identity, so it was edited")
    stated = identity["recipe"]
    recipe = dict(stated) if isinstance(stated, dict) else {"the recipe": stated}
    if recipe.pop("version", None) == RECIPE_VERSION:  # what it leaves out is at the default
        recipe = {name: value for name, value in _RECIPE_DEFAULTS.items() if name in spec["recipe"]} | recipe
    if not _within(recipe, spec["recipe"]):
        raise ValueError("spec.recipe is not that of its identity, so it was edited")
    for name in ("seed", "phase"):
        if identity.get(name) != spec[name]:
            raise ValueError(f"spec.{name} is not that of its identity, so it was edited")


def _within(part: Any, whole: Any) -> bool:
    """Return whether all that a reduced part of an identity says stands in the spec."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and _within(value, whole[name]) for name, value in part.items())
    return bool(part == whole)


def check_nesting(data: Any) -> None:
    """Refuse what is nested so deep that following it would end Python, and integers that no table holds."""
    level: list[Any] = [data]
    for _ in range(_MOST_NESTED):
        found: list[Any] = []
        for value in level:
            for item in value.values() if isinstance(value, dict) else value:
                if isinstance(item, dict | list):
                    found.append(item)
                elif type(item) in {int, float} and not _is_number(item):
                    raise ValueError(f"a number must be finite and an integer of at most 64 bits, got {show(item)}")
        if not found:
            return
        level = found
    raise ValueError(f"it is nested deeper than {_MOST_NESTED} levels")


def _wrong(problem: str) -> ValueError:
    """Return the error of a wrong type: to who reads a file, it is of a wrong value."""
    return ValueError(problem)
