"""Components by name: initializers, architectures, datasets and probes.

One generic registry serves all four. What the library brings stands in a static table of name and module, so that
a name can be looked up, listed or misspelled without importing torch; a module is imported when its component is used,
and its decorator then registers the factory with what it declares.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Generic, Literal, TypeVar

from initbench import plugins
from initbench.errors import ArgumentError, InitbenchError, UnknownNameError
from initbench.validation import explain, nearest, type_text, types_of

TraitsT = TypeVar("TraitsT")
Factory = TypeVar("Factory", bound=Callable[..., Any])
_FAMILY = "/*"


@dataclass(frozen=True)
class Argument:
    """One argument of a component, as a user may set it.

    Attributes:
        name: its name.
        type: its annotation, as text.
        default: its default; `inspect.Parameter.empty` where it is required.
    """

    name: str
    type: str
    default: Any

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True)
class Component(Generic[TraitsT]):
    """A registered factory with its typed arguments.

    Attributes:
        kind: ``initializer``, ``architecture``, ``dataset`` or ``probe``.
        name: the registered name.
        factory: called with the resolved arguments.
        version: raised when the component's numbers change; part of every trial's id.
        traits: what it declared at registration.
        supplied: keyword arguments of the factory that the library passes, not the user.
    """

    kind: str
    name: str
    factory: Callable[..., Any]
    version: int
    traits: TraitsT
    supplied: frozenset[str] = frozenset()

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        try:
            signature = inspect.signature(self.factory, eval_str=True)
        except NameError as error:
            raise InitbenchError(
                f"{self.kind} {self.name!r} ({plugins.origin(self.module)}): the annotations of its arguments "
                f"cannot be read: {error}; import it outside `if TYPE_CHECKING`"
            ) from error
        if "name" in signature.parameters:
            raise InitbenchError(f"{self.kind} {self.name!r}: an argument cannot be called 'name', as the component is")
        named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        return {n: p for n, p in signature.parameters.items() if n not in self.supplied and p.kind in named}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a user may set, in the factory's order."""
        return tuple(Argument(name, type_text(p.annotation), p.default) for name, p in self._parameters.items())

    @property
    def module(self) -> str:
        """The name of the module that defines the factory."""
        factory = self.factory.func if isinstance(self.factory, partial) else self.factory
        return str(factory.__module__)

    @property
    def documentation(self) -> str:
        """The factory's docstring."""
        factory = self.factory.func if isinstance(self.factory, partial) else self.factory
        return inspect.getdoc(factory) or ""

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.documentation.partition("\n")[0]

    @cached_property
    def source(self) -> str | None:
        """The SHA-256 of a plug-in's source; None for what the library brings."""
        return None if self.module.partition(".")[0] == "initbench" else plugins.source_hash(self.module)

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {}
        for index, (name, parameter) in enumerate(self._parameters.items()):
            annotation = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            # Under an alias, because names such as `copy` or `_x` are not free for a field.
            fields[f"argument{index}"] = (annotation, Field(default, alias=name))
        config = ConfigDict(
            extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True, validate_default=True
        )
        return create_model(f"{self.kind}_{self.name}", __config__=config, **fields)

    def resolve(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments, defaults filled in; integers given for numbers are made floats, lists tuples.

        Raises:
            ArgumentError: an unknown or missing argument, or one of the wrong type.
        """
        from pydantic import ValidationError

        # YAML and JSON have lists alone.
        given = {
            name: tuple(value) if isinstance(value, list) and self._takes_a_tuple(name) else value
            for name, value in arguments.items()
        }
        try:
            checked = self._model(**given)
        except ValidationError as error:
            details = error.errors(include_url=False)[0]
            name = str(details["loc"][0])
            raise ArgumentError(f"{name}: {explain(details, self._parameters)}", name) from None
        # Field by field: `model_dump` would turn nested values into copies of other types.
        return {name: getattr(checked, f"argument{index}") for index, name in enumerate(self._parameters)}

    def _takes_a_tuple(self, name: str) -> bool:
        return name in self._parameters and tuple in types_of(self._parameters[name].annotation)

    def takes_a_list(self, name: str) -> bool:
        """Return whether a list is one value of this argument (and so is not crossed)."""
        return name in self._parameters and not {tuple, list}.isdisjoint(types_of(self._parameters[name].annotation))

    def build(self, arguments: Mapping[str, Any], **supplied: Any) -> Any:
        """Call the factory with resolved arguments.

        Args:
            arguments: what the user set; checked by `resolve`.
            supplied: what the library passes; only what the factory takes is passed on.

        Raises:
            ArgumentError: an argument that `resolve` or the factory (by a ValueError) refuses.
        """
        resolved = self.resolve(arguments)
        takes = inspect.signature(self.factory).parameters
        try:
            return self.factory(**resolved, **{n: v for n, v in supplied.items() if n in takes})
        except ValueError as error:
            # By convention such a message begins with the argument's name: "depth must be 6n + 4, got 27".
            named = str(error).partition(" ")[0].rstrip(":")
            argument = named if named in resolved else None
            raise ArgumentError(plugins.first_line(error), argument) from error


@dataclass
class Registry(Generic[TraitsT]):
    """All components of one kind.

    Attributes:
        kind: what they are, for messages.
        builtins: name → module of what the library brings. ``prefix/*`` is a family: every member of
            ``prefix/NAME`` is built by one factory, whose first argument is NAME.
        supplied: see `Component`.
    """

    kind: str
    builtins: Mapping[str, str]
    supplied: frozenset[str] = frozenset()
    _registered: dict[str, Component[TraitsT]] = field(default_factory=dict)

    def register(self, name: str, version: int, traits: TraitsT) -> Callable[[Factory], Factory]:
        """Return a decorator that registers a factory.

        Raises:
            InitbenchError: the name is taken or malformed, or the version is below 1.
        """
        if not name or any(c.isspace() or c in "[](),=" for c in name):
            raise InitbenchError(f"{self.kind} {name!r}: a name has no spaces, brackets, commas or '='")
        if version < 1:
            raise InitbenchError(f"{self.kind} {name!r}: version must be at least 1, got {version}")

        def decorate(factory: Factory) -> Factory:
            owner = self._taken_by(name, factory)
            if owner is not None:
                raise InitbenchError(f"{self.kind} {name!r} is already registered by {plugins.origin(owner)}")
            self._registered[name] = Component(self.kind, name, factory, version, traits, self.supplied)
            return factory

        return decorate

    def _taken_by(self, name: str, factory: Callable[..., Any]) -> str | None:
        """Return the module of another factory that has this name, or the family that it would belong to."""
        for taken in (name, name.partition("/")[0] + _FAMILY):
            builtin = self.builtins.get(taken)
            if builtin is not None and builtin != factory.__module__:
                return builtin
            registered = self._registered.get(taken)
            # The same definition may run again: a module is reloaded, a notebook's cell repeated.
            if registered is not None and _definition(registered.factory) != _definition(factory):
                return registered.module
        return None

    def names(self) -> list[str]:
        """Return the names of all components, those of installed plug-ins included, families as ``prefix/*``."""
        plugins.load_entry_points()
        return sorted({*self.builtins, *self._registered})

    def get(self, name: str) -> Component[TraitsT]:
        """Return a component, importing its module.

        Raises:
            UnknownNameError: no component has this name.
        """
        if name in self.builtins:
            importlib.import_module(self.builtins[name])
        elif name not in self._registered:
            plugins.load_entry_points()
        if name in self._registered and not name.endswith(_FAMILY):
            return self._registered[name]
        prefix, slash, member = name.partition("/")
        family = prefix + _FAMILY
        if slash and family in self.names():
            return self._member(self._family(family), name, member)
        raise UnknownNameError(f"unknown {self.kind} {name!r}{nearest(name, self.names())}")

    def find(self, name: str) -> Component[TraitsT]:
        """Return a component, or a whole family by its ``prefix/*``.

        Raises:
            UnknownNameError: no component has this name.
        """
        if name.endswith(_FAMILY) and name in self.names():
            family = self._family(name)
            # Its first argument is the member's name, which stands in the component's.
            return replace(
                family, supplied=family.supplied | {next(iter(inspect.signature(family.factory).parameters))}
            )
        return self.get(name)

    def _family(self, name: str) -> Component[TraitsT]:
        if name in self.builtins:
            importlib.import_module(self.builtins[name])
        return self._registered[name]

    def _member(self, family: Component[TraitsT], name: str, member: str) -> Component[TraitsT]:
        members: list[str] = list(getattr(family.traits, "members", tuple)())
        if member not in members:
            prefix = name.partition("/")[0]
            hint = nearest(name, [f"{prefix}/{m}" for m in members], list_all=False)
            example = f" (such as {prefix}/{members[0]})" if members else ""
            raise UnknownNameError(f"unknown {self.kind} {name!r}{hint or example}")
        return Component(
            self.kind, name, partial(family.factory, member), family.version, family.traits, family.supplied
        )


def _definition(factory: Callable[..., Any]) -> tuple[str, str]:
    return factory.__module__, factory.__qualname__


@dataclass(frozen=True)
class InitializerTraits:
    """What an initializer declares.

    Attributes:
        kind: a ``distribution`` draws the parameters, a ``tuner`` adjusts those of its base with batches.
        base: a tuner's default base distribution.
        batch_size: a tuner's default number of samples per batch.
        scheme: the scheme of the architecture that it needs, None for any.
        reference: the paper, for `initbench describe`.
    """

    kind: Literal["distribution", "tuner"] = "distribution"
    base: str | None = None
    batch_size: int | None = None
    scheme: str | None = None
    reference: str = ""


@dataclass(frozen=True)
class ArchitectureTraits:
    """What an architecture declares.

    Attributes:
        schemes: the schemes that it can be built with.
        members: the names of a family's members.
        reference: the paper, for `initbench describe`.
    """

    schemes: tuple[str, ...] = ("standard",)
    members: Callable[[], Iterable[str]] = tuple
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
        reference: the paper, for `initbench describe`.
    """

    reference: str = ""


INITIALIZERS: Registry[InitializerTraits] = Registry(
    "initializer",
    {
        "delta_orthogonal": "initbench.initializers.delta_orthogonal",
        "gaussian": "initbench.initializers.gaussian",
        "kaiming": "initbench.initializers.kaiming",
        "metainit": "initbench.initializers.metainit",
        "orthogonal": "initbench.initializers.orthogonal",
        "pytorch_default": "initbench.initializers.pytorch_default",
        "xavier": "initbench.initializers.xavier",
    },
)
ARCHITECTURES: Registry[ArchitectureTraits] = Registry(
    "architecture",
    {
        "mlp": "initbench.architectures.mlp",
        "plain": "initbench.architectures.wrn",
        "timm/*": "initbench.architectures.timm",
        "wrn": "initbench.architectures.wrn",
    },
    frozenset({"input_shape", "num_classes", "scheme"}),
)
DATASETS: Registry[DatasetTraits] = Registry(
    "dataset",
    {
        "cifar10": "initbench.data.cifar",
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


def register_initializer(
    name: str,
    version: int = 1,
    *,
    kind: Literal["distribution", "tuner"] = "distribution",
    base: str | None = None,
    batch_size: int | None = None,
    scheme: str | None = None,
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register an initializer: a factory of typed hyperparameters that returns ``apply(model, context)``.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        kind: ``distribution`` or ``tuner``.
        base: a tuner's default base distribution.
        batch_size: a tuner's default number of samples per batch.
        scheme: the architecture scheme that it needs.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or a tuner without base or batch size.
    """
    if kind == "tuner" and (base is None or batch_size is None):
        raise InitbenchError(f"initializer {name!r}: a tuner declares its default base and batch_size")
    return INITIALIZERS.register(name, version, InitializerTraits(kind, base, batch_size, scheme, reference))


def register_architecture(
    name: str,
    version: int = 1,
    *,
    schemes: tuple[str, ...] = ("standard",),
    members: Callable[[], Iterable[str]] = tuple,
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
        reference: the paper.

    Raises:
        InitbenchError: the name is taken.
    """
    return ARCHITECTURES.register(name, version, ArchitectureTraits(schemes, members, reference))


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


def register_probe(name: str, version: int = 1, *, reference: str = "") -> Callable[[Factory], Factory]:
    """Register a probe: a factory of typed arguments that returns ``measure(model, context)``.

    Args:
        name: how suites name it.
        version: raise it when the numbers change.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken.
    """
    return PROBES.register(name, version, ProbeTraits(reference))
