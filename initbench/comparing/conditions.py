"""Conditions on trials: the ``when`` of a rule, an ``exclude``, and ``--only`` on the command line.

Bare keys are ``architecture``, ``initializer``, ``dataset`` (names), ``scheme``, ``seed`` and the architecture's
arguments; others are dotted: ``initializer.steps``, ``recipe.lr``, ``dataset.image_size``, ``initializer.base`` (a
name), ``initializer.base.gain``, and arguments of schemes that are not at their defaults, ``scheme.alpha``. A list
matches any of its values.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from initbench.arguments import nearest, show
from initbench.comparing.labels import is_component

Condition = dict[str, Any]
_COMPONENTS = ("architecture", "initializer", "dataset")


def properties(
    architecture: Mapping[str, Any], scheme: Mapping[str, Any], seed: int, *parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the properties of a trial that conditions can use, defaults included.

    Args:
        architecture: its arguments, which conditions name without their kind.
        scheme: the properties of the trial's scheme.
        seed: of the trial.
        parts: the properties of its components and of its recipe, by their complete names.
    """
    # An architecture's argument that is called `seed` or `scheme` has only its dotted name.
    values = {**architecture, **scheme, "seed": seed}
    for part in parts:
        values |= part
    return values


def properties_of_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `properties` of a trial's spec as plain data, as in a record."""
    components = [component_properties(kind, spec[kind]["name"], spec[kind]["arguments"]) for kind in _COMPONENTS]
    recipe = {f"recipe.{name}": value for name, value in spec["recipe"].items()}
    scheme = component_properties("scheme", spec["scheme"], spec.get("scheme_arguments", {}))
    return properties(spec["architecture"]["arguments"], scheme, spec["seed"], *components, recipe)


def component_properties(kind: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a component: its name, its arguments, and the properties of components among these."""
    values: dict[str, Any] = {kind: name}
    for argument, value in arguments.items():
        key = f"{kind}.{argument}"
        if isinstance(value, Mapping) and is_component(value):
            values |= component_properties(key, value["name"], value["arguments"])
        else:
            values[key] = value
    return values


def kind_of(key: str) -> str:
    """Return the subject of a condition's key: ``recipe`` for ``recipe.lr``, ``architecture`` for ``norm``.

    A scheme is written in the entry of an architecture.
    """
    head, dot, _ = key.partition(".")
    if head == "scheme":
        return "architecture"
    return head if dot or head in {*_COMPONENTS, "seed"} else "architecture"


class Matcher:
    """A condition, and whether trials have met it.

    Args:
        condition: key → value, or list of values.
    """

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.ever = False

    def __call__(self, trial: Mapping[str, Any]) -> bool:
        """Return whether a trial with these `properties` meets every key of the condition."""
        met = all(
            key in trial and any(_equal(value, trial[key]) for value in _values(wanted))
            for key, wanted in self.condition.items()
        )
        self.ever = self.ever or met
        return met

    def problem(self, seen: Seen, changed: Collection[str] = ()) -> tuple[str | None, str] | None:
        """Return why no trial can meet the condition, as (key or None, message); None if a trial met it.

        Args:
            seen: the properties of all trials.
            changed: the kinds (see `kind_of`) that the command line has changed: a condition on their previous values
                is not an error. `seen` knows the arguments of components of these kinds.
        """
        for key, wanted in self.condition.items():
            others = seen.of(key)
            if not seen.knows(key) or (not others and kind_of(key) not in changed):
                return key, f"is an unknown key{nearest(key, seen.keys())}"
            if wanted == []:
                return key, "must not be an empty list: nothing would match"
            for value in _values(wanted):
                if kind_of(key) not in changed and not any(_equal(value, other) for other in others):
                    return key, f"no trial has {show(value)}{_instead(value, others)}"
        if self.ever or any(kind_of(key) in changed for key in self.condition):
            return None
        return None, "no trial meets all of it"


class Seen:
    """Every value of every property of a suite's trials."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, Any]] = {}

    def add(self, trial: Mapping[str, Any]) -> None:
        for key, value in trial.items():
            self._values.setdefault(key, {}).setdefault(repr(value), value)

    def know(self, key: str) -> None:
        """Add a property that trials can have, although none has it."""
        self._values.setdefault(key, {})

    def knows(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> list[str]:
        return sorted(self._values)

    def of(self, key: str) -> list[Any]:
        return list(self._values.get(key, {}).values())


def _values(wanted: Any) -> list[Any]:
    return wanted if isinstance(wanted, list) else [wanted]


def _equal(wanted: Any, actual: Any) -> bool:
    actual = list(actual) if isinstance(actual, tuple) else actual
    return bool(isinstance(wanted, bool) == isinstance(actual, bool) and wanted == actual)


def _instead(value: Any, others: list[Any]) -> str:
    if isinstance(value, str):
        return nearest(value, [other for other in others if isinstance(other, str)])
    ordered = sorted(others, key=lambda other: other if isinstance(other, int | float) else math.inf)
    return f" (valid: {', '.join(map(show, ordered[:20]))})"
