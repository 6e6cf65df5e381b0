"""Components by name: initializers, architectures, datasets and probes.

One generic registry serves all four. What the library brings stands in a static table of name and module, so that
a name can be looked up, listed or misspelled without importing torch; a module is imported when its component is used,
and its decorator then registers the factory with what it declares.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from initbench.errors import InitbenchError
from initbench.registry.component import Argument, Component
from initbench.registry.generic import Factory, Registry
from initbench.validation import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "ARCHITECTURES",
    "DATASETS",
    "INITIALIZERS",
    "PROBES",
    "REGISTRIES",
    "ArchitectureTraits",
    "Argument",
    "Component",
    "DatasetTraits",
    "InitializerTraits",
    "ProbeTraits",
    "Registry",
    "register_architecture",
    "register_dataset",
    "register_initializer",
    "register_probe",
]


@dataclass(frozen=True)
class InitializerTraits:
    """What an initializer declares.

    Attributes:
        kind: a ``distribution`` draws the parameters, a ``tuner`` adjusts those of its base with batches.
        base: a tuner's default base distribution: its name, or a mapping of its ``name`` and arguments.
        batch_size: a tuner's default number of samples per batch.
        scheme: the scheme of the architecture that it needs, None for any.
        smoke: argument → value for a smoke run, where the user's would take long.
        reference: the paper, for `initbench describe`.
    """

    kind: Literal["distribution", "tuner"] = "distribution"
    base: str | Mapping[str, Any] | None = None
    batch_size: int | None = None
    scheme: str | None = None
    smoke: Mapping[str, Any] = field(default_factory=dict)
    reference: str = ""


@dataclass(frozen=True)
class ArchitectureTraits:
    """What an architecture declares.

    Attributes:
        schemes: the schemes that it can be built with.
        members: the names of a family's members.
        example: one of them, for `initbench describe`.
        reference: the paper, for `initbench describe`.
    """

    schemes: tuple[str, ...] = ("standard",)
    members: Callable[[], Iterable[str]] = tuple
    example: str = ""
    reference: str = ""


@dataclass(frozen=True)
class DatasetTraits:
    """What a dataset declares.

    Attributes:
        input_shape: (channels, height, width) of a sample; the arguments ``channels`` and ``image_size`` override it.
        num_classes: the number of classes; an argument of this name overrides it.
        reference: where it comes from, for `initbench describe`.
    """

    input_shape: tuple[int, int, int]
    num_classes: int
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


INITIALIZERS: Registry[InitializerTraits] = Registry(
    "initializer",
    {
        "data_dependent_weight_norm": "initbench.initializers.data_dependent_weight_norm",
        "delta_orthogonal": "initbench.initializers.delta_orthogonal",
        "fixup": "initbench.initializers.fixup",
        "gaussian": "initbench.initializers.gaussian",
        "gpt2": "initbench.initializers.gpt2",
        "gradinit": "initbench.initializers.gradinit",
        "kaiming": "initbench.initializers.kaiming",
        "layer_scale": "initbench.initializers.layer_scale",
        "lecun": "initbench.initializers.lecun",
        "looks_linear": "initbench.initializers.looks_linear",
        "lsuv": "initbench.initializers.lsuv",
        "metainit": "initbench.initializers.metainit",
        "orthogonal": "initbench.initializers.orthogonal",
        "pytorch_default": "initbench.initializers.pytorch_default",
        "skipinit": "initbench.initializers.skipinit",
        "truncated_normal": "initbench.initializers.truncated_normal",
        "weight_norm": "initbench.initializers.weight_norm",
        "xavier": "initbench.initializers.xavier",
        "zero": "initbench.initializers.zero",
    },
)
ARCHITECTURES: Registry[ArchitectureTraits] = Registry(
    "architecture",
    {
        "mlp": "initbench.architectures.mlp",
        "plain": "initbench.architectures.wrn",
        "resnet": "initbench.architectures.resnet",
        "timm/*": "initbench.architectures.timm",
        "wrn": "initbench.architectures.wrn",
    },
    frozenset({"input_shape", "num_classes", "scheme"}),
)
DATASETS: Registry[DatasetTraits] = Registry(
    "dataset",
    {
        "cifar10": "initbench.data.cifar",
        "cifar100": "initbench.data.cifar",
        "digits": "initbench.data.digits",
        "fashion_mnist": "initbench.data.fashion_mnist",
        "gaussian": "initbench.data.gaussian",
    },
)
PROBES: Registry[ProbeTraits] = Registry(
    "probe",
    {
        "gradient_norm": "initbench.probes.gradient_norm",
        "gradient_quotient": "initbench.probes.gradient_quotient",
        "initial_loss": "initbench.probes.initial_loss",
        "weight_norm": "initbench.probes.weight_norm",
    },
)
REGISTRIES: tuple[Registry[Any], ...] = (INITIALIZERS, ARCHITECTURES, DATASETS, PROBES)


def register_initializer(
    name: str,
    version: int = 1,
    *,
    kind: Literal["distribution", "tuner"] = "distribution",
    base: str | Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    scheme: str | None = None,
    smoke: Mapping[str, Any] | None = None,
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register an initializer: a factory of typed hyperparameters that returns ``apply(model, context)``.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        kind: ``distribution`` or ``tuner``.
        base: a tuner's default base distribution, ``"kaiming"`` or ``{"name": "kaiming", "mode": "fan_out"}``.
        batch_size: a tuner's default number of samples per batch.
        scheme: the architecture scheme that it needs.
        smoke: argument → value for a smoke run (``{"steps": 3}``), where the user's would take long.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, a tuner without base or batch size, or `smoke` names no argument.
    """
    if kind == "tuner" and (base is None or batch_size is None):
        raise InitbenchError(f"initializer {name!r}: a tuner declares its default base and batch_size")
    smoke = smoke or {}
    traits = InitializerTraits(kind, base, batch_size, scheme, smoke, reference)
    return _with_smoke(f"initializer {name!r}", smoke, INITIALIZERS.register(name, version, traits))


def register_architecture(
    name: str,
    version: int = 1,
    *,
    schemes: tuple[str, ...] = ("standard",),
    members: Callable[[], Iterable[str]] = tuple,
    example: str = "",
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register an architecture: a factory that returns an `nn.Module`.

    The factory may take ``input_shape`` (channels, height, width), ``num_classes`` and ``scheme``, which the library
    passes; its other arguments are the user's.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        schemes: the schemes that it can be built with.
        members: for a family ``prefix/*``, its members' names.
        example: for a family, the member that is shown where one has to be.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken.
    """
    return ARCHITECTURES.register(name, version, ArchitectureTraits(schemes, members, example, reference))


def register_dataset(
    name: str, version: int = 1, *, input_shape: tuple[int, int, int], num_classes: int, reference: str = ""
) -> Callable[[Factory], Factory]:
    """Register a dataset: a factory that returns an `initbench.data.dataset.Dataset`.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        input_shape: (channels, height, width); the arguments ``channels`` and ``image_size`` override it.
        num_classes: the number of classes; an argument of this name overrides it.
        reference: where it comes from.

    Raises:
        InitbenchError: the name is taken.
    """
    return DATASETS.register(name, version, DatasetTraits(input_shape, num_classes, reference))


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
    return _with_smoke(f"probe {name!r}", smoke, PROBES.register(name, version, ProbeTraits(smoke, reference)))


def _with_smoke(
    who: str, smoke: Mapping[str, Any], register: Callable[[Factory], Factory]
) -> Callable[[Factory], Factory]:
    """Return the decorator that refuses a factory without the arguments that a smoke run sets."""

    def decorate(factory: Factory) -> Factory:
        arguments = inspect.signature(factory).parameters  # names alone: annotations are read when they are needed
        for argument in smoke:
            if argument not in arguments:
                raise InitbenchError(f"{who}: smoke sets {argument!r}, no argument{nearest(argument, arguments)}")
        return register(factory)

    return decorate
