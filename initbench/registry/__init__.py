"""Components by name: initializers, architectures, schemes, tasks, datasets and probes.

One generic registry serves all six. What the library brings stands in a static table of name and module, so that
a name can be looked up, listed or misspelled without importing torch; a module is imported when its component is used,
and its decorator then registers the factory with what it declares (`traits`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from initbench.arguments import nearest
from initbench.errors import InitbenchError
from initbench.inputs import Inputs
from initbench.registry.component import Argument, Component, Factory, Registry
from initbench.registry.initializer import INITIALIZERS, Initializer
from initbench.registry.scheme import SCHEMES, STANDARD, has_parts_of, register_scheme, scheme_names
from initbench.registry.traits import (
    ArchitectureTraits,
    DataKind,
    DatasetTraits,
    Describe,
    Description,
    InitializerTraits,
    Member,
    ProbeTraits,
    Refuses,
    SchemeTraits,
    Shallow,
    TaskTraits,
)

__all__ = [
    "ARCHITECTURES",
    "DATASETS",
    "INITIALIZERS",
    "PROBES",
    "REGISTRIES",
    "SCHEMES",
    "STANDARD",
    "TASKS",
    "ArchitectureTraits",
    "Argument",
    "Component",
    "DatasetTraits",
    "Description",
    "Initializer",
    "InitializerTraits",
    "Member",
    "ProbeTraits",
    "Registry",
    "SchemeTraits",
    "Shallow",
    "TaskTraits",
    "has_parts_of",
    "reads_optimizer",
    "register_architecture",
    "register_dataset",
    "register_initializer",
    "register_probe",
    "register_scheme",
    "register_task",
    "scheme_names",
]

TaskClass = TypeVar("TaskClass", bound=type)

ARCHITECTURES: Registry[ArchitectureTraits] = Registry(
    "architecture",
    {
        "densenet": "initbench.architectures.densenet",
        "gpt": "initbench.architectures.gpt",
        "hf/*": "initbench.architectures.hf",
        "imagenet_resnet": "initbench.architectures.resnet",
        "mlp": "initbench.architectures.mlp",
        "plain": "initbench.architectures.wrn",
        "residual_mlp": "initbench.architectures.mlp",
        "resnet": "initbench.architectures.resnet",
        "timm/*": "initbench.architectures.timm",
        "torchvision/*": "initbench.architectures.torchvision",
        "vgg": "initbench.architectures.vgg",
        "wrn": "initbench.architectures.wrn",
    },
    frozenset({"inputs", "outputs", "scheme"}),
)
TASKS: Registry[TaskTraits] = Registry(
    "task",
    {
        "classification": "initbench.tasks.classification",
        "language_modelling": "initbench.tasks.language_modelling",
    },
)
DATASETS: Registry[DatasetTraits] = Registry(
    "dataset",
    {
        "cifar10": "initbench.data.cifar",
        "cifar100": "initbench.data.cifar",
        "digits": "initbench.data.digits",
        "fashion_mnist": "initbench.data.fashion_mnist",
        "gaussian": "initbench.data.random_samples",
        "image_folder": "initbench.data.image_folder",
        "python_library": "initbench.data.python_library",
        "random": "initbench.data.random_samples",
        "shakespeare": "initbench.data.shakespeare",
        "text_file": "initbench.data.text_file",
    },
)
PROBES: Registry[ProbeTraits] = Registry(
    "probe",
    {
        "batch_norm_magnification": "initbench.probes.batch_norm_magnification",
        "gradient_deviation": "initbench.probes.gradient_deviation",
        "gradient_norm": "initbench.probes.gradient_norm",
        "gradient_quotient": "initbench.probes.gradient_quotient",
        "hessian_spectrum": "initbench.probes.hessian_spectrum",
        "initial_loss": "initbench.probes.initial_loss",
        "parameter_norm": "initbench.probes.parameter_norm",
        "signal_by_depth": "initbench.probes.signal_by_depth",
        "weight_magnitude": "initbench.probes.weight_magnitude",
    },
)
REGISTRIES: tuple[Registry[Any], ...] = (INITIALIZERS, ARCHITECTURES, SCHEMES, TASKS, DATASETS, PROBES)


def reads_optimizer(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an initializer, or one that it starts from, declares that it reads the optimizer.

    Args:
        name: the registered name.
        arguments: all of them as plain data, as specs have them.

    Raises:
        UnknownNameError: an initializer is not registered.
    """
    component = INITIALIZERS.get(name)
    bases = [arguments[argument] for argument in component.initializer_arguments]
    declared = [reads_optimizer(base["name"], base["arguments"]) for base in bases if base is not None]
    return component.traits.reads_optimizer or any(declared)


def register_initializer(
    name: str,
    version: int = 1,
    *,
    data: DataKind | None = None,
    scheme: str | None = None,
    reads_optimizer: bool = False,
    refuses: Refuses | None = None,
    smoke: Mapping[str, Any] | None = None,
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register an initializer: a factory of typed hyperparameters that returns ``apply(model, context)``.

    One that starts from another has an argument of type `Initializer`, one that needs batches an argument
    ``batch_size``: both are ordinary arguments.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        data: which batches it needs by default, ``random`` or ``real``; None for none.
        scheme: the scheme that a model must have for it.
        reads_optimizer: whether the optimizer of the training to come changes what it does.
        refuses: called with its arguments and the name and learning rate of the optimizer; returns why the two do not
            go together, None where they do.
        smoke: argument → value for a smoke run (``{"steps": 3}``), where the user's would take long.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or `smoke` names no argument.
    """
    smoke = smoke or {}
    traits = InitializerTraits(data, scheme, reads_optimizer, refuses, smoke, reference)
    return _with_arguments(f"initializer {name!r}: smoke sets", smoke, INITIALIZERS.register(name, version, traits))


def register_architecture(
    name: str,
    version: int = 1,
    *,
    tasks: tuple[str, ...] = ("classification",),
    schemes: tuple[str, ...] = (),
    members: Callable[[], Iterable[str]] = tuple,
    member: Callable[[str], Member] | None = None,
    example: str = "",
    reference: str = "",
    shallow: Callable[[Mapping[str, Any]], Shallow | None] | None = None,
) -> Callable[[Factory], Factory]:
    """Register an architecture: a factory that returns an `nn.Module`.

    The factory may take ``inputs`` (an `initbench.Inputs`), ``outputs`` (how many: classes, or tokens of a vocabulary)
    and ``scheme``, which the library passes; its other arguments are the user's.

    An architecture is built under every registered scheme, unless it or the scheme refuses. What the factory returns
    for a scheme of `schemes` is the whole network; for another one the scheme then puts its parts into it, with what
    ends a residual branch in the place of an `initbench.BranchEnd` where there is one.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        tasks: the tasks that it serves.
        schemes: the schemes whose network it builds itself.
        members: for a family ``prefix/*``, its members' names.
        member: for a family whose members differ in their arguments or tasks, what is known of the member of a name.
        example: for a family, the member that is shown where one has to be.
        reference: the paper.
        shallow: called with all arguments by name; returns shallow networks of the same kind, by which one of
            thousands of blocks is planned, None for one that is shallow.

    Raises:
        InitbenchError: the name is taken.
    """
    traits = ArchitectureTraits(tasks, schemes, members, member, example, reference, shallow)
    return ARCHITECTURES.register(name, version, traits)


def register_task(name: str, version: int = 1, *, reference: str = "") -> Callable[[TaskClass], TaskClass]:
    """Register a task: a subclass of `initbench.Task`.

    Args:
        name: how datasets and architectures name it.
        version: raise it when the numbers change.
        reference: where its metrics come from.

    Raises:
        InitbenchError: the name is taken.
    """
    register = TASKS.register(name, version, TaskTraits(reference))

    def decorate(task: TaskClass) -> TaskClass:
        task.name = name  # type: ignore[attr-defined]  # of every `Task`
        return register(task)

    return decorate


def register_dataset(
    name: str,
    version: int = 1,
    *,
    task: str = "classification",
    inputs: Inputs | None = None,
    outputs: int | None = None,
    describe: Describe | None = None,
    reading: tuple[str, ...] = (),
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register a dataset: a factory that returns `initbench.Splits`.

    What it asks of a model is declared, by `inputs` and `outputs` where these are always the same, else by `describe`.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        task: what is learned from it.
        inputs: one sample.
        outputs: how many outputs a model must have: classes, or tokens of a vocabulary.
        describe: called with the dataset's own arguments, all of them by name; returns its `Description` without
            reading more than it must, or raises a `DataError` where the files that it needs are absent.
        reading: the names of arguments that say how the files are read and change no number, such as a number of
            processes: they are no part of a trial's id.
        reference: where it comes from.

    Raises:
        InitbenchError: the name is taken, it is not said what the dataset asks of a model, or `reading` names no
            argument.
    """
    if describe is None:
        if inputs is None or outputs is None:
            raise InitbenchError(f"dataset {name!r}: declare inputs and outputs, or describe")
        fixed = Description(inputs, outputs)

        def describe(**_: Any) -> Description:
            return fixed

    register = DATASETS.register(name, version, DatasetTraits(task, describe, reading, reference))
    return _with_arguments(f"dataset {name!r}: reading names", reading, register)


def register_probe(
    name: str, version: int = 1, *, smoke: Mapping[str, Any] | None = None, reference: str = ""
) -> Callable[[Factory], Factory]:
    """Register a probe: a factory of typed arguments that returns ``measure(model, context)``.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        smoke: argument → value for a smoke run (``{"batches": 2}``), where the user's would take long.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or `smoke` names no argument.
    """
    smoke = smoke or {}
    traits = ProbeTraits(smoke, reference)
    return _with_arguments(f"probe {name!r}: smoke sets", smoke, PROBES.register(name, version, traits))


def _with_arguments(
    what: str, named: Iterable[str], register: Callable[[Factory], Factory]
) -> Callable[[Factory], Factory]:
    """Return the decorator that refuses a factory without the arguments that its registration names."""

    def decorate(factory: Factory) -> Factory:
        arguments = inspect.signature(factory).parameters  # names alone: annotations are read when they are needed
        for argument in named:
            if argument not in arguments:
                raise InitbenchError(f"{what} {argument!r}, no argument{nearest(argument, arguments)}")
        return register(factory)

    return decorate
