"""The declarations of components at registration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from initbench.inputs import Inputs

DataKind = Literal["random", "real"]


@dataclass(frozen=True)
class Description:
    """The inputs and outputs of a dataset, and its identity.

    Attributes:
        inputs: one sample.
        outputs: the number of outputs that a model must have: classes, or tokens of a vocabulary.
        content: a hash of the source's bytes, such as ``sha256:...``, which identifies the data instead of a path; None
            if name, version and arguments identify them.
        task: the task, if it depends on the arguments; None for the registered one.
        absent: if files are absent and the arguments describe the rest, which file to put where; `content` is None
            until then, so trials can be planned and smoke-run, but have no ids yet.
    """

    inputs: Inputs
    outputs: int
    content: str | None = None
    task: str | None = None
    absent: str | None = None


Describe = Callable[..., Description]
"""Called with a dataset's arguments by name; raises a `DataError` if files that it needs are absent."""

Refuses = Callable[[Mapping[str, Any], str, float], str | None]
"""Called with an initializer's arguments and the name and learning rate of the training's optimizer."""


@dataclass(frozen=True)
class InitializerTraits:
    """The declarations of an initializer, see `register_initializer`."""

    data: DataKind | None = None
    scheme: str | None = None
    reads_optimizer: bool = False
    refuses: Refuses | None = None
    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
    sets_rates: bool = False
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shallow:
    """Shallow networks of the same kind as a deep one; they represent it in checks.

    Attributes:
        arguments: the changed arguments of the shallow network.
        more: the changed arguments of the next deeper network.
        times: the deep network is the shallow one plus this many times the difference between the two, also in size.
    """

    arguments: Mapping[str, Any]
    more: Mapping[str, Any]
    times: int

    @classmethod
    def of_depth(cls, depth: int, least: int, step: int, deepest: int) -> Self | None:
        """Return the networks of the depths `least` and `least` + `step`; None if `depth` is not larger, or is wrong.

        `deepest` is the greatest depth that the architecture takes.
        """
        if not least < depth <= deepest or (depth - least) % step:
            return None
        return cls({"depth": least}, {"depth": least + step}, (depth - least) // step)


@dataclass(frozen=True)
class Member:
    """The properties of one member of a family of architectures.

    `tasks` None means the tasks of the family; `arguments` come beside the factory's own, which takes them as
    ``**arguments``.
    """

    tasks: tuple[str, ...] | None = None
    arguments: tuple[inspect.Parameter, ...] = ()


@dataclass(frozen=True)
class ArchitectureTraits:
    """The declarations of an architecture, see `register_architecture`."""

    tasks: tuple[str, ...] = ("classification",)
    schemes: tuple[str, ...] = ()
    members: Callable[[], Iterable[str]] = tuple
    member: Callable[[str], Member] | None = None
    example: str = ""
    reference: str = ""
    shallow: Callable[[Mapping[str, Any]], Shallow | None] | None = None


@dataclass(frozen=True)
class SchemeTraits:
    """The declarations of a scheme, see `register_scheme`."""

    instead_of_norm: bool = False
    keeps_function: bool = False
    brings_biases: bool = False
    includes: str | None = None
    example: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True)
class TaskTraits:
    """The declarations of a task."""

    reference: str = ""


@dataclass(frozen=True)
class DatasetTraits:
    """The declarations of a dataset, see `register_dataset`; `describe` always has a value."""

    task: str
    describe: Describe
    reading: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True)
class ProbeTraits:
    """The declarations of a probe, see `register_probe`."""

    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
