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
    """The declarations of an initializer.

    Attributes:
        data: the batches that it needs by default; None for none.
        scheme: the scheme that the architecture must have; None for any.
        reads_optimizer: whether its result depends on the optimizer of the training that follows.
        refuses: why it does not work with a training, see `Refuses`.
        smoke: argument → value for a smoke run, if the user's value would take long.
        reference: the paper, for `initbench describe`.
    """

    data: DataKind | None = None
    scheme: str | None = None
    reads_optimizer: bool = False
    refuses: Refuses | None = None
    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True)
class Shallow:
    """Shallow networks of the same kind as a deep one; they represent it in checks.

    Attributes:
        arguments: the changed arguments of the shallow network.
        more: the changed arguments of the next deeper network.
        times: the deep network is the shallow one plus this many times the difference between the next deeper and the
            shallow one, including parameters.
    """

    arguments: Mapping[str, Any]
    more: Mapping[str, Any]
    times: int

    @classmethod
    def of_depth(cls, depth: int, least: int, step: int, deepest: int) -> Self | None:
        """Return the networks of the least depth and of one step more; None if the depth is not larger, or is wrong.

        Args:
            depth: the deep network's argument ``depth``.
            least: depth of the shallow network.
            step: how much deeper the next one is.
            deepest: the greatest depth that the architecture takes.
        """
        if not least < depth <= deepest or (depth - least) % step:
            return None
        return cls({"depth": least}, {"depth": least + step}, (depth - least) // step)


@dataclass(frozen=True)
class Member:
    """The properties of one member of a family of architectures, beside the family's.

    Attributes:
        tasks: the tasks that it supports; None for the family's.
        arguments: its arguments beside the factory's own; the factory takes them as ``**arguments``.
    """

    tasks: tuple[str, ...] | None = None
    arguments: tuple[inspect.Parameter, ...] = ()


@dataclass(frozen=True)
class ArchitectureTraits:
    """The declarations of an architecture.

    Attributes:
        tasks: the tasks that it supports.
        schemes: the schemes that it builds itself; for all others see `SchemeTraits`.
        members: the names of a family's members.
        member: returns the properties of a named member, if members differ; else None.
        example: a member, for `initbench describe`.
        reference: the paper, for `initbench describe`.
        shallow: called with all arguments; returns shallow networks of the same kind, or None if the network is
            shallow.
    """

    tasks: tuple[str, ...] = ("classification",)
    schemes: tuple[str, ...] = ()
    members: Callable[[], Iterable[str]] = tuple
    member: Callable[[str], Member] | None = None
    example: str = ""
    reference: str = ""
    shallow: Callable[[Mapping[str, Any]], Shallow | None] | None = None


@dataclass(frozen=True)
class SchemeTraits:
    """The declarations of a scheme.

    Attributes:
        instead_of_norm: whether it replaces normalization: an architecture with a choice is built without it.
        keeps_function: whether a model without normalization computes the same function with it.
        brings_biases: whether it adds biases beside the layers: an architecture with a choice is built without biases
            of its convolutions.
        includes: another scheme, all of whose parts it has: initializers that need the other scheme run on it.
        reference: the paper, for `initbench describe`.
    """

    instead_of_norm: bool = False
    keeps_function: bool = False
    brings_biases: bool = False
    includes: str | None = None
    reference: str = ""


@dataclass(frozen=True)
class TaskTraits:
    """The declarations of a task.

    Attributes:
        reference: the source of its metrics, for `initbench describe`.
    """

    reference: str = ""


@dataclass(frozen=True)
class DatasetTraits:
    """The declarations of a dataset.

    Attributes:
        task: the task.
        describe: returns the inputs and outputs, from the arguments.
        reading: the arguments that control how its files are read, and change no number.
        reference: the source of the data, for `initbench describe`.
    """

    task: str
    describe: Describe
    reading: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True)
class ProbeTraits:
    """The declarations of a probe.

    Attributes:
        smoke: argument → value for a smoke run, if the user's value would take long.
        reference: the paper, for `initbench describe`.
    """

    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
