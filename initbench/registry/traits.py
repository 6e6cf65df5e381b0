"""What components declare at registration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from initbench.inputs import Inputs

DataKind = Literal["random", "real"]


@dataclass(frozen=True)
class Description:
    """What a dataset asks of a model, and what it is.

    Attributes:
        inputs: one sample.
        outputs: how many outputs a model must have: classes, or tokens of a vocabulary.
        content: a hash of the source's bytes, such as ``sha256:...``: the dataset's identity in the place of any path;
            None where name, version and arguments are all of it.
        task: what is learned, where that depends on the arguments; None for what was registered.
        absent: where files are absent and the arguments say the rest, what to put where; `content` is None until then,
            so that trials are planned and smoke-run, and have no ids yet.
    """

    inputs: Inputs
    outputs: int
    content: str | None = None
    task: str | None = None
    absent: str | None = None


Describe = Callable[..., Description]
"""Called with a dataset's arguments by name; raises a `DataError` where files that it needs are absent."""

Refuses = Callable[[Mapping[str, Any], str, float], str | None]
"""Called with an initializer's arguments and the name and learning rate of the training's optimizer."""


@dataclass(frozen=True)
class InitializerTraits:
    """What an initializer declares.

    Attributes:
        data: which batches it needs by default; None for none.
        scheme: the scheme of the architecture that it needs, None for any.
        reads_optimizer: whether the optimizer of the training to come changes what it does.
        refuses: why it cannot precede a training, see `Refuses`.
        smoke: argument → value for a smoke run, where the user's would take long.
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
    """Shallow networks of the same kind as a deep one: what is refused of one is refused of the other.

    Attributes:
        arguments: those that give the shallow network, in the place of the deep one's.
        more: those that give the next deeper one.
        times: how many times the deep network has, beside what the shallow one has, what the next deeper one adds to
            it, parameters and all.
    """

    arguments: Mapping[str, Any]
    more: Mapping[str, Any]
    times: int

    @classmethod
    def of_depth(cls, depth: int, least: int, step: int, deepest: int) -> Self | None:
        """Return the networks of the least depth and of one step more; None for a depth that is no deeper, or wrong.

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
    """What is known of one member of a family of architectures, beside what the family declares.

    Attributes:
        tasks: the tasks that it serves; None for those of the family.
        arguments: the arguments that it has beside the factory's own; the factory takes them as ``**arguments``.
    """

    tasks: tuple[str, ...] | None = None
    arguments: tuple[inspect.Parameter, ...] = ()


@dataclass(frozen=True)
class ArchitectureTraits:
    """What an architecture declares.

    Attributes:
        tasks: the tasks that it serves.
        schemes: the schemes that it builds itself; for all others see `SchemeTraits`.
        members: the names of a family's members.
        member: what is known of the member of a name, where members differ; None where they do not.
        example: one of them, for `initbench describe`.
        reference: the paper, for `initbench describe`.
        shallow: called with all arguments; returns shallow networks of the same kind, None for one that is shallow.
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
    """What a scheme declares.

    Attributes:
        instead_of_norm: whether it stands in the place of a normalization: an architecture with a choice is built
            without one.
        keeps_function: whether a model without normalization computes the same after it.
        brings_biases: whether it puts biases of its own beside the layers: an architecture with a choice is built
            without biases of its convolutions.
        includes: another scheme, all of whose parts it has: what needs that one runs on it.
        reference: the paper, for `initbench describe`.
    """

    instead_of_norm: bool = False
    keeps_function: bool = False
    brings_biases: bool = False
    includes: str | None = None
    reference: str = ""


@dataclass(frozen=True)
class TaskTraits:
    """What a task declares.

    Attributes:
        reference: where its metrics come from, for `initbench describe`.
    """

    reference: str = ""


@dataclass(frozen=True)
class DatasetTraits:
    """What a dataset declares.

    Attributes:
        task: what is learned from it.
        describe: what it asks of a model, from its arguments.
        reading: the arguments that say how its files are read, and change no number.
        reference: where it comes from, for `initbench describe`.
    """

    task: str
    describe: Describe
    reading: tuple[str, ...] = ()
    reference: str = ""


@dataclass(frozen=True)
class ProbeTraits:
    """What a probe declares.

    Attributes:
        smoke: argument → value for a smoke run, where the user's would take long.
        reference: the paper, for `initbench describe`.
    """

    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""
