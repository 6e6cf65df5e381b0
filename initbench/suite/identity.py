"""The identity of a trial: its spec, reduced to what changes the numbers.

A plain value of the library's own component that is at its default is left out, so that an argument that a later
version adds moves no id. A default whose change moves numbers raises the component's version. Components (of a
trial, and those that are arguments of others), their versions, and all arguments of a plug-in stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, SCHEMES, TASKS
from initbench.training.recipe import RECIPE_VERSION, Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from initbench.registry import Registry
    from initbench.suite.spec import ComponentSpec, DatasetSpec, TrialSpec


def identity(spec: TrialSpec) -> dict[str, Any]:
    """Return the reduced spec of a trial as plain data.

    Raises:
        UnknownNameError: a component is not registered in this process.
    """
    return {
        "architecture": _component(ARCHITECTURES, spec.architecture),
        "scheme": _scheme(spec.scheme),
        "initializer": _component(INITIALIZERS, spec.initializer),
        "dataset": _dataset(spec.dataset),
        "task": _task(spec.dataset.task),
        "recipe": _recipe(spec.recipe) | {"version": RECIPE_VERSION},
        "probes": [_component(PROBES, probe) for probe in spec.probes],
        "seed": spec.seed,
        "phase": spec.phase,
    }


def _component(registry: Registry[Any], spec: ComponentSpec) -> dict[str, Any]:
    return _reduced(registry, spec.model_dump(mode="json", include={"name", "arguments", "version", "source"}))


def _reduced(registry: Registry[Any], component: Mapping[str, Any]) -> dict[str, Any]:
    registered = registry.get(component["name"])
    nested, defaults = registered.initializer_arguments, registered.defaults
    arguments = {}
    for name, value in component["arguments"].items():
        if name in nested and value is not None:
            arguments[name] = _reduced(INITIALIZERS, value)
        elif name in nested or component["source"] is not None or name not in defaults or value != defaults[name]:
            arguments[name] = value
    reduced = {"name": component["name"], "arguments": arguments, "version": component["version"]}
    return reduced if component["source"] is None else reduced | {"source": component["source"]}


def _dataset(spec: DatasetSpec) -> dict[str, Any]:
    """Return a dataset by its content; where that is known a path says nothing more."""
    reduced = _component(DATASETS, spec)
    if spec.content is None:
        return reduced
    paths = DATASETS.get(spec.name).path_arguments
    kept = {name: value for name, value in reduced["arguments"].items() if name not in paths}
    return reduced | {"arguments": kept, "content": spec.content}


def _task(name: str) -> dict[str, Any]:
    task = TASKS.get(name)
    return {"name": name, "version": task.version} | ({} if task.source is None else {"source": task.source})


def _scheme(name: str) -> str | dict[str, Any]:
    """Return a scheme by its name alone, where that is the library's first version; so is one of an architecture."""
    if name not in SCHEMES.names():
        return name
    scheme = SCHEMES.get(name)
    if scheme.source is None and scheme.version == 1:
        return name
    return {"name": name, "version": scheme.version} | ({} if scheme.source is None else {"source": scheme.source})


def _recipe(recipe: Recipe) -> dict[str, Any]:
    defaults = Recipe().model_dump(mode="json")
    return {name: value for name, value in recipe.model_dump(mode="json").items() if value != defaults[name]}
