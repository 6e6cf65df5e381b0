"""What components declare at registration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
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
class ArchitectureTraits:
    """What an architecture declares.

    Attributes:
        tasks: the tasks that it serves.
        schemes: the schemes that it builds itself; for all others see `SchemeTraits`.
        members: the names of a family's members.
        example: one of them, for `initbench describe`.
        reference: the paper, for `initbench describe`.
    """

    tasks: tuple[str, ...] = ("classification",)
    schemes: tuple[str, ...] = ()
    members: Callable[[], Iterable[str]] = tuple
    example: str = ""
    reference: str = ""


@dataclass(frozen=True)
class SchemeTraits:
    """What a scheme declares.

    Attributes:
        instead_of_norm: whether it stands in the place of a normalization: an architecture with a choice is built
            without one.
        keeps_function: whether a model without normalization computes the same after it.
        reference: the paper, for `initbench describe`.
    """

    instead_of_norm: bool = False
    keeps_function: bool = False
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
