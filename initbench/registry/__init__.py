"""Components by name: initializers, architectures, schemes, tasks, datasets and probes.

The library's components are in a static table of names and modules, so a name can be looked up or listed without
importing torch. A module is imported when its component is used; its decorator then registers the factory and its
`traits`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from initbench.arguments import nearest
from initbench.errors import ArgumentError, InitbenchError
from initbench.inputs import Inputs
from initbench.registry.component import Argument, Component, Factory, Registry
from initbench.registry.initializer import INITIALIZERS, Initializer
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
    "Registry",
    "Shallow",
    "has_parts_of",
    "reads_optimizer",
    "register_architecture",
    "register_dataset",
    "register_initializer",
    "register_probe",
    "register_scheme",
    "register_task",
    "scheme_arguments",
    "scheme_names",
]

TaskClass = TypeVar("TaskClass", bound=type)
STANDARD = "standard"
"""The name for no scheme: a model as its architecture builds it."""

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
        "transformer": "initbench.architectures.transformer",
        "vgg": "initbench.architectures.vgg",
        "wrn": "initbench.architectures.wrn",
    },
    frozenset({"inputs", "outputs", "scheme"}),
)
SCHEMES: Registry[SchemeTraits] = Registry(
    "scheme",
    {
        "admin": "initbench.schemes.admin",
        "channel_bias": "initbench.schemes.channel_bias",
        "deepnorm": "initbench.schemes.deepnorm",
        "fixup": "initbench.schemes.fixup",
        "skipinit": "initbench.schemes.skipinit",
        "weight_norm": "initbench.schemes.weight_norm",
        "weight_norm_beside_norm": "initbench.schemes.weight_norm",
    },
    frozenset({"model", "structure"}),
)
TASKS: Registry[TaskTraits] = Registry(
    "task",
    {
        "classification": "initbench.tasks.classification",
        "language_modelling": "initbench.tasks.language_modelling",
        "translation": "initbench.tasks.translation",
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
        "iwslt14": "initbench.data.iwslt14",
        "number_words": "initbench.data.number_words",
        "parallel_text": "initbench.data.parallel_text",
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
        "coordinates": "initbench.probes.coordinates",
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
    """Return whether an initializer, or its base, declares that it reads the optimizer.

    `arguments` are plain data, as in specs.
    """
    component = INITIALIZERS.get(name)
    bases = [arguments[argument] for argument in component.initializer_arguments]
    declared = [reads_optimizer(base["name"], base["arguments"]) for base in bases if base is not None]
    return component.traits.reads_optimizer or any(declared)


def has_parts_of(scheme: str, needed: str) -> bool:
    """Return whether a network of a scheme has the parts of another one that an initializer needs."""
    included = SCHEMES.get(scheme).traits.includes if scheme in SCHEMES.names() else None
    return needed in {scheme, included}


def scheme_names(architecture: Component[Any]) -> tuple[str, ...]:
    """Return the schemes that a suite can request for an architecture: none, the registered ones, and its own.

    It, or the scheme, may refuse when it is built.
    """
    return tuple(dict.fromkeys((STANDARD, *SCHEMES.names(), *architecture.traits.schemes)))


def scheme_arguments(architecture: Component[Any], scheme: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scheme's arguments that are not at their defaults, as plain data.

    Raises:
        ArgumentError: an argument, named ``scheme.ARGUMENT``, is unknown or of the wrong type, or the architecture
            builds the scheme's network itself, which takes none.
    """
    if not arguments:
        return {}
    if scheme in {STANDARD, *architecture.traits.schemes}:
        why = "is no scheme" if scheme == STANDARD else f"is built by {architecture.name} itself"
        raise ArgumentError(f"{scheme} {why} and takes no arguments", f"scheme.{next(iter(arguments))}")
    component = SCHEMES.get(scheme)
    try:
        plain = component.plain(component.resolve(arguments))
    except ArgumentError as error:
        raise ArgumentError(error.problem, f"scheme.{error.argument}") from error
    return {name: value for name, value in plain.items() if name in arguments and value != component.defaults.get(name)}


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
    sets_rates: bool = False,
    example: Mapping[str, Any] | None = None,
) -> Callable[[Factory], Factory]:
    """Register an initializer: a factory of typed hyperparameters that returns ``apply(model, context)``.

    To start from another initializer, add an argument of type `Initializer`; to receive batches, add an argument
    ``batch_size``. Both are ordinary arguments.

    Args:
        name: the name in suites.
        version: raise it when the numbers change.
        data: the batches that it needs by default, ``random`` or ``real``; None for none.
        scheme: the scheme that a model must have.
        reads_optimizer: whether its result depends on the optimizer of the training that follows.
        refuses: called with its arguments and the name and learning rate of the optimizer; returns why the initializer
            does not work with that optimizer, or None if it does.
        smoke: argument → value for a smoke run (``{"steps": 3}``), if the user's value would take long.
        reference: the paper.
        sets_rates: whether the multipliers in its record are part of the method. If so, it does not run with a recipe
            that replaces or distorts them: `lr_multipliers`, `weight_decays`, `clip_norm`, or ``adam`` with weight
            decay.
        example: for an initializer of one kind of network, an architecture for tokens with arguments, as in a suite, on
            which the conformance kit runs it, too.

    Raises:
        InitbenchError: the name is taken, or `smoke` names an unknown argument.
    """
    smoke = smoke or {}
    traits = InitializerTraits(data, scheme, reads_optimizer, refuses, smoke, reference, sets_rates, example or {})
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

    The factory may take ``inputs`` (an `initbench.Inputs`), ``outputs`` (the number of classes, or of tokens of a
    vocabulary) and ``scheme``, which the library passes; the user sets the other arguments.

    An architecture is built under every registered scheme, unless it or the scheme refuses. For a scheme in `schemes`,
    the factory returns the complete network. For any other scheme, the scheme then inserts its parts; an
    `initbench.BranchEnd` at the end of a residual branch is replaced by the scheme's own end.

    Args:
        name: the name in suites.
        version: raise it when the numbers change.
        tasks: the tasks that it supports.
        schemes: the schemes whose network it builds itself.
        members: for a family ``prefix/*``, the names of its members.
        member: for a family whose members differ in their arguments or tasks, returns the properties of a named member.
        example: for a family, the member to show as an example.
        reference: the paper.
        shallow: called with all arguments by name; returns shallow networks of the same kind, with which a network of
            thousands of blocks is planned, or None if the network itself is shallow.

    Raises:
        InitbenchError: the name is taken.
    """
    traits = ArchitectureTraits(tasks, schemes, members, member, example, reference, shallow)
    return ARCHITECTURES.register(name, version, traits)


def register_scheme(
    name: str,
    version: int = 1,
    *,
    instead_of_norm: bool = False,
    keeps_function: bool = False,
    brings_biases: bool = False,
    includes: str | None = None,
    example: Mapping[str, Any] | None = None,
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register a scheme: a function of ``model`` and ``structure`` that returns the model with the scheme's parts.

    The function may change the model and return it. ``structure`` is an `initbench.Structure` with the model's residual
    branches. Further arguments are typed and have defaults; `initbench.rewrite` and suites (``scheme: {name: mine,
    argument: 2}``) pass them on. A ValueError says why a model does not fit: the pair is then incompatible.

    Args:
        name: the name in suites, initializers and architectures.
        version: raise it when the numbers change.
        instead_of_norm: whether it replaces normalization. Architectures with an argument ``norm`` then accept only
            none, and give their convolutions the biases that normalization would have.
        keeps_function: whether a model without normalization computes the same function with it.
        brings_biases: whether it adds biases beside the layers, which would duplicate the biases of convolutions.
            Architectures with an argument ``conv_bias`` then refuse it.
        includes: another scheme, all of whose parts it has; initializers that need the other scheme run on it if a
            suite asks for it.
        example: an architecture with arguments, as in a suite, that the scheme fits; ``timm/resnet18`` if not given.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or is ``standard``, which means no scheme.
    """
    if name == STANDARD:
        raise InitbenchError(f'scheme {STANDARD!r}: the name is reserved for "no scheme"')
    traits = SchemeTraits(
        instead_of_norm, keeps_function, brings_biases, includes, example or {"name": "timm/resnet18"}, reference
    )
    return SCHEMES.register(name, version, traits)


def register_task(name: str, version: int = 1, *, reference: str = "") -> Callable[[TaskClass], TaskClass]:
    """Register a task: a subclass of `initbench.Task`.

    Args:
        name: the name that datasets and architectures use.
        version: raise it when the numbers change.
        reference: the source of its metrics.

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

    Its inputs and outputs are declared: by `inputs` and `outputs` if they are always the same, else by `describe`.

    Args:
        name: the name in suites.
        version: raise it when the numbers change.
        task: the task of the dataset.
        inputs: one sample.
        outputs: the number of outputs that a model must have: classes, or tokens of a vocabulary.
        describe: called with all arguments of the dataset by name; returns its `Description` and reads as little as
            possible, or raises a `DataError` if the files that it needs are absent.
        reading: the names of arguments that control how files are read and change no number, such as a number of
            processes; they are not part of a trial's id.
        reference: the source of the data.

    Raises:
        InitbenchError: the name is taken, inputs and outputs are not declared, or `reading` names an unknown argument.
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
        name: the name in suites.
        version: raise it when the numbers change.
        smoke: argument → value for a smoke run (``{"batches": 2}``), if the user's value would take long.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or `smoke` names an unknown argument.
    """
    smoke = smoke or {}
    traits = ProbeTraits(smoke, reference)
    return _with_arguments(f"probe {name!r}: smoke sets", smoke, PROBES.register(name, version, traits))


def _with_arguments(
    what: str, named: Iterable[str], register: Callable[[Factory], Factory]
) -> Callable[[Factory], Factory]:
    """Return a decorator that refuses a factory without the arguments that its registration names."""

    def decorate(factory: Factory) -> Factory:
        arguments = inspect.signature(factory).parameters  # names only: annotations are read when they are needed
        for argument in named:
            if argument not in arguments:
                raise InitbenchError(f"{what} {argument!r}, which is not an argument{nearest(argument, arguments)}")
        return register(factory)

    return decorate
