"""`TrialSpec`: a trial with every default resolved, and its identity.

The identity is the part of the spec that changes the numbers; its hash is the trial's id. Plain arguments of the
library's own components are left out at their default, so a new argument in a later version changes no id; if a default
changes and moves numbers, the component's version is raised. Components (also those that are arguments), their
versions, and all arguments of plug-ins are always included.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from initbench.inputs import Inputs
from initbench.randomness import derive_seed
from initbench.training.recipe import RECIPE_VERSION, Recipe

if TYPE_CHECKING:
    from initbench.registry import Component, Registry

SCHEMA = 2
"""The format of records and of the files beside them."""
Protocol = Literal["recipe", "shared", "own"]
"""The values at which the trials of a tuned suite are compared: see `TrialSpec.protocols`."""
TUNING_LABELS = ("tuned", "protocols")
"""Labels that plain data have only if they are not empty."""
_ABSENT_IF_EMPTY = {*TUNING_LABELS, "scheme_arguments"}
_FROZEN = ConfigDict(frozen=True, extra="forbid")
_REPLICATE = {"seed", "probes"}


class ComponentSpec(BaseModel):
    """An initializer, architecture, dataset or probe with all its arguments, defaults included, as plain data.

    An argument that is an initializer has a ``name``, ``arguments``, ``version`` and ``source``, the SHA-256 of a
    plug-in's source.
    """

    model_config = _FROZEN

    name: str
    arguments: dict[str, Any] = {}
    version: int = 1
    source: str | None = None


class DatasetSpec(ComponentSpec):
    """A dataset with its inputs and outputs; before it is described, name and arguments alone.

    Attributes:
        task: of the dataset.
        inputs: one sample; None if the dataset is not described.
        outputs: the number of outputs that a model must have; 0 if the dataset is not described.
        content: the hash of the source's bytes, which identifies the data instead of a path; None if name, version and
            arguments identify them.
        reading: the arguments that say how the files are read, if there are any: they change no number.
    """

    task: str = "classification"
    inputs: Inputs | None = None
    outputs: int = 0
    content: str | None = None
    reading: dict[str, Any] = {}

    @property
    def all_arguments(self) -> dict[str, Any]:
        return self.arguments | self.reading

    @model_serializer(mode="wrap")
    def _what_is_known(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = serialize(self)
        unknown = () if self.inputs is not None else ("task", "inputs", "outputs", "content")
        hidden = {*unknown, *(() if self.reading else ("reading",))}
        return {name: value for name, value in plain.items() if name not in hidden}


class TrialSpec(BaseModel):
    """Architecture × scheme × initializer × dataset × recipe × probes × seed: the unit that runs.

    Labels are not part of the identity; when cells are paired, labels of rules and tuning are ignored.

    Attributes:
        suite: the suite's name; a label.
        phase: ``search`` trials choose the tuned values and never open the test split.
        scheme_arguments: the scheme's arguments that are not at their defaults.
        set_by_rules: the keys that the suite's rules set (``recipe.clip_norm``); a label.
        scheme_named_by: who asks for the scheme: the ``suite``, the ``initializer``, or both, if two entries of the
            suite make the same trial; a label.
        tuned: the keys that the suite's `tune` searches, in search and final trials; a label.
        protocols: the protocols of a final trial of a tuned suite: at the ``recipe``'s values as written, at the
            ``shared`` ones of its workload, at its cell's ``own`` best; otherwise empty; a label.
    """

    model_config = _FROZEN

    suite: str
    architecture: ComponentSpec
    scheme: str = "standard"
    scheme_arguments: dict[str, Any] = {}
    initializer: ComponentSpec
    dataset: DatasetSpec
    recipe: Recipe
    probes: tuple[ComponentSpec, ...]
    seed: int
    phase: Literal["search", "final"] = "final"
    set_by_rules: tuple[str, ...] = ()
    scheme_named_by: tuple[Literal["suite", "initializer"], ...] = ("suite",)
    tuned: tuple[str, ...] = ()
    protocols: tuple[Protocol, ...] = ()

    @model_serializer(mode="wrap")
    def _without_empty_ones(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A trial without tuning or arguments of its scheme has the record that it had before these existed.
        plain: dict[str, Any] = serialize(self)
        return {name: value for name, value in plain.items() if value or name not in _ABSENT_IF_EMPTY}

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The hashed part: everything that changes the numbers, and nothing else. All components must be registered."""
        # Imported here, because reports read records without a registry.
        from initbench.registry import ARCHITECTURES, DATASETS, INITIALIZERS, PROBES, SCHEMES, TASKS

        dataset = _reduced(DATASETS, self.dataset)
        if self.dataset.content is not None:  # the content identifies the data, so the path is left out
            paths = DATASETS.get(self.dataset.name).path_arguments
            kept = {name: value for name, value in dataset["arguments"].items() if name not in paths}
            dataset |= {"arguments": kept, "content": self.dataset.content}
        recipe, defaults = self.recipe.model_dump(mode="json"), type(self.recipe).model_fields
        return {
            "architecture": _reduced(ARCHITECTURES, self.architecture),
            "scheme": _scheme(SCHEMES, self.scheme, self.scheme_arguments),
            "initializer": _reduced(INITIALIZERS, self.initializer),
            "dataset": dataset,
            "task": _version(TASKS.get(self.dataset.task)),
            "recipe": {name: recipe[name] for name, value in self.recipe if value != defaults[name].default}
            | {"version": RECIPE_VERSION},
            "probes": [_reduced(PROBES, probe) for probe in self.probes],
            "seed": self.seed,
            "phase": self.phase,
        }

    @cached_property
    def id(self) -> str:
        return "" if self.dataset.inputs is None else digest(self.identity)

    @cached_property
    def cell(self) -> str:
        """The hash of the identity without seed and probes: the trials of one cell are replicates."""
        return cell_id(self.identity)

    @property
    def stream_seed(self) -> int:
        """The seed of all random streams of the trial; a search has other streams than the final trial of its seed."""
        return self.seed if self.phase == "final" else derive_seed(self.seed, "search")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a trial with other values and no cached properties, so that it gets its own id."""
        fields = {name: getattr(self, name) for name in type(self).model_fields} | dict(update or {})
        changed = type(self).model_construct(**fields)
        return deepcopy(changed) if deep else changed  # type: ignore[return-value]  # the plugin of pydantic says TrialSpec


def cell_id(identity: Mapping[str, Any], tuned: Collection[str] = ()) -> str:
    """Return the hash of an identity without its seed and probes: the trials of one cell are replicates.

    `tuned` are the keys that a search chooses for each seed (``recipe.lr``), which do not distinguish cells.
    """
    kept = {key: value for key, value in identity.items() if key not in _REPLICATE}
    for key in tuned:
        kind, _, name = key.partition(".")
        inside = "recipe" if kind == "recipe" else "arguments"
        part = kept[kind] if kind == inside else kept[kind][inside]
        without = {other: value for other, value in part.items() if other != name}
        kept[kind] = without if kind == inside else kept[kind] | {inside: without}
    return digest(kept)


def digest(canonical: Mapping[str, Any]) -> str:
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _reduced(registry: Registry[Any], spec: ComponentSpec) -> dict[str, Any]:
    """Return a component without the plain values that are at their defaults."""
    from initbench.registry import INITIALIZERS

    component = registry.get(spec.name)
    nested, defaults = component.initializer_arguments, component.defaults
    arguments = {}
    for name, value in spec.arguments.items():
        if name in nested and value is not None:
            arguments[name] = _reduced(INITIALIZERS, ComponentSpec(**value))
        elif name in nested or spec.source is not None or name not in defaults or value != defaults[name]:
            arguments[name] = value
    reduced = {"name": spec.name, "arguments": arguments, "version": spec.version}
    return reduced if spec.source is None else reduced | {"source": spec.source}


def _scheme(registry: Registry[Any], name: str, arguments: Mapping[str, Any]) -> str | dict[str, Any]:
    """Return the identity of a scheme.

    The name identifies a scheme that only one architecture has, and one in its first version without arguments.
    """
    component = registry.get(name) if name in registry.names() else None
    is_plain = component is None or (component.source is None and component.version == 1)
    if is_plain and not arguments:
        return name
    stated = {"name": name} if component is None else _version(component)
    return stated | ({"arguments": dict(arguments)} if arguments else {})


def _version(component: Component[Any]) -> dict[str, Any]:
    source = {} if component.source is None else {"source": component.source}
    return {"name": component.name, "version": component.version} | source
