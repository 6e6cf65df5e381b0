"""Components: registered factories with typed arguments, and how they are called."""

from __future__ import annotations

import importlib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from initbench import plugins
from initbench.arguments import argument_of, choices_of, explain, nearest, show, type_text, types_of
from initbench.errors import ArgumentError, InitbenchError, UnknownNameError
from initbench.registry.traits import ArchitectureTraits, Shallow

Factory = TypeVar("Factory", bound=Callable[..., Any])
TraitsT = TypeVar("TraitsT")
_FAMILY = "/*"
_SCALARS = (str, int, float, type(None))


class ComponentArgument(ABC):
    """The type of an argument that is itself a component with arguments."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return name, arguments, version and plug-in source, as in specs and records."""

    @abstractmethod
    def to_user(self) -> str | dict[str, Any]:
        """Return the component as a user writes it in a suite."""


@dataclass(frozen=True)
class Argument:
    """An argument that a user may set; `type` is its annotation as text, `default` is written as in a suite."""

    name: str
    type: str
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


# Names that suites, `create_model`, `rewrite` and `initialize` use beside a component's own arguments.
_RESERVED = {
    "architecture": {"input_shape", "num_classes", "scheme_arguments", "seed"},
    "initializer": {
        *["batches", "input_shape", "inputs", "loss_fn", "num_classes", "real_batches", "seed", "task"],
        "training_optimizer",
    },
    "scheme": {"inputs", "scheme"},
}


@dataclass(frozen=True)
class Component(Generic[TraitsT]):
    """A registered factory with its typed arguments.

    Attributes:
        kind: ``initializer``, ``architecture``, ``scheme``, ``task``, ``dataset`` or ``probe``.
        version: raised when the component's numbers change; part of every trial's id.
        supplied: keyword arguments of the factory that the library passes.
        member_arguments: for a member of a family, the arguments that it has beside the factory's.
    """

    kind: str
    name: str
    factory: Callable[..., Any]
    version: int
    traits: TraitsT
    supplied: frozenset[str] = frozenset()
    member_arguments: tuple[inspect.Parameter, ...] = ()

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        try:
            signature = inspect.signature(self.factory, eval_str=True)
        except NameError as error:
            raise InitbenchError(
                f"{self.kind} {self.name!r} ({plugins.origin(self.module)}): the annotations of its arguments "
                f"cannot be read: {error}; import it outside `if TYPE_CHECKING`"
            ) from error
        for name in sorted({"name", *_RESERVED.get(self.kind, ())} & set(signature.parameters)):
            raise InitbenchError(
                f"{self.kind} {self.name!r}: an argument cannot be called {name!r}, because initbench uses that name"
            )
        named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        parameters = {**signature.parameters, **{parameter.name: parameter for parameter in self.member_arguments}}
        return {n: p for n, p in parameters.items() if n not in self.supplied and p.kind in named}

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that a user may set, in the factory's order."""
        return tuple(
            Argument(name, type_text(p.annotation), as_a_user_writes_it(p.default))
            for name, p in self._parameters.items()
        )

    @property
    def definition(self) -> Callable[..., Any]:
        """The registered function; for a member of a family, the family's."""
        return self.factory.func if isinstance(self.factory, partial) else self.factory

    @property
    def module(self) -> str:
        return str(self.definition.__module__)

    @property
    def documentation(self) -> str:
        return inspect.getdoc(self.definition) or ""

    @property
    def summary(self) -> str:
        return self.documentation.partition("\n")[0]

    @cached_property
    def source(self) -> str | None:
        """The SHA-256 of a plug-in's source; None for the library's components."""
        module = self.module
        return None if module.partition(".")[0] == "initbench" else plugins.source_hash(module)

    @cached_property
    def _types(self) -> dict[str, set[Any]]:
        return {name: types_of(parameter.annotation) for name, parameter in self._parameters.items()}

    @cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, Field, create_model

        fields: dict[str, Any] = {}
        for index, (name, parameter) in enumerate(self._parameters.items()):
            annotation = Any if parameter.annotation is inspect.Parameter.empty else parameter.annotation
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            # With an alias, because a field cannot have names such as `copy` or `_x`.
            fields[f"argument{index}"] = (annotation, Field(default, alias=name))
        config = ConfigDict(
            extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True, validate_default=True
        )
        return create_model(f"{self.kind}_{self.name}", __config__=config, **fields)

    def resolve(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments with defaults; integers given for numbers become floats, lists become tuples.

        An argument that is unknown, missing or of the wrong type raises an ArgumentError.
        """
        from pydantic import ValidationError

        given = {name: self._as_python(name, value) for name, value in arguments.items()}
        try:
            checked = self._model(**given)
        except ValidationError as error:
            details = error.errors(include_url=False)[0]
            # For a nested initializer the refused argument of its own follows: `base.gain`.
            name, *within = details["loc"][0], *argument_of(details)[len(details["loc"]) :]
            raise ArgumentError(explain(details, self._parameters), ".".join(map(str, (name, *within)))) from None
        # Field by field, because `model_dump` would convert nested values to other types.
        return {name: getattr(checked, f"argument{index}") for index, name in enumerate(self._parameters)}

    @cached_property
    def initializer_arguments(self) -> tuple[str, ...]:
        """The names of the arguments that are initializers."""
        return tuple(
            name
            for name, types in self._types.items()
            if any(isinstance(kind, type) and issubclass(kind, ComponentArgument) for kind in types)
        )

    @cached_property
    def path_arguments(self) -> tuple[str, ...]:
        return tuple(name for name, types in self._types.items() if Path in types)

    def shallow(self, arguments: Mapping[str, Any]) -> Shallow | None:
        """Return the shallow networks that an architecture declares for these resolved arguments."""
        declared: Callable[[Mapping[str, Any]], Shallow | None] | None = getattr(self.traits, "shallow", None)
        return None if declared is None else declared(arguments)

    @property
    def reading_arguments(self) -> tuple[str, ...]:
        """The names of the arguments that control how a dataset's files are read, and change no number."""
        return getattr(self.traits, "reading", ())

    def plain(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return resolved arguments as plain data, as in specs and records."""
        return {name: v if isinstance(v, _SCALARS) else _plain(v) for name, v in arguments.items()}

    def spec(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the component with its resolved arguments as plain data, as in specs and records.

        The arguments that control how a dataset's files are read are left out: see `reading`.
        """
        plain, reading = self.plain(arguments), self.reading_arguments
        return {
            "name": self.name,
            "arguments": {name: value for name, value in plain.items() if name not in reading},
            "version": self.version,
            "source": self.source,
        }

    def reading(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.plain({name: arguments[name] for name in self.reading_arguments})

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default of each argument that has one, as plain data."""
        # A number with an integer default stays an integer here; it equals the float of `resolve`.
        return self.plain(
            {n: p.default for n, p in self._parameters.items() if p.default is not inspect.Parameter.empty}
        )

    def _as_python(self, name: str, value: Any) -> Any:
        """Convert a list or text of YAML or JSON to a tuple or path if the argument has that type.

        An infinity of YAML becomes the text ``inf``, which JSON can hold, if the argument allows that text.
        """
        types = self._types.get(name, set())
        is_inf = isinstance(value, float) and value == math.inf
        if is_inf and types and "inf" in choices_of(self._parameters[name].annotation):
            return "inf"
        if isinstance(value, list) and tuple in types:
            return tuple(value)
        return Path(value) if isinstance(value, str) and Path in types else value

    def takes_a_list(self, name: str) -> bool:
        return not {tuple, list}.isdisjoint(self._types.get(name, ()))

    def build(self, arguments: Mapping[str, Any], **supplied: Any) -> Any:
        """Check the user's arguments, and call the factory with them; see `resolve` and `call`."""
        return self.call(self.resolve(arguments), **supplied)

    def call(self, resolved: Mapping[str, Any], **supplied: Any) -> Any:
        """Call the factory with resolved arguments, and with the supplied ones that it takes.

        If it refuses an argument it raises an ArgumentError; a plug-in's ValueError counts as one.
        """
        takes = inspect.signature(self.factory).parameters if supplied else ()
        try:
            return self.factory(**resolved, **{n: v for n, v in supplied.items() if n in takes})
        except ArgumentError:
            raise
        except ValueError as error:
            raise ArgumentError(plugins.first_line(error)) from error


def as_a_user_writes_it(default: Any) -> Any:
    """Return a factory's default as in a suite."""
    return default.to_user() if isinstance(default, ComponentArgument) else default


def _plain(value: Any) -> Any:
    if isinstance(value, ComponentArgument):
        return value.to_json()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


@dataclass
class Registry(Generic[TraitsT]):
    """All components of one kind.

    `builtins` maps names to modules of the library. ``prefix/*`` is a family: one factory, whose first argument is
    NAME, builds every member ``prefix/NAME``.
    """

    kind: str
    builtins: Mapping[str, str]
    supplied: frozenset[str] = frozenset()
    _registered: dict[str, Component[TraitsT]] = field(default_factory=dict)
    _members: dict[str, Component[TraitsT]] = field(default_factory=dict)

    def register(self, name: str, version: int, traits: TraitsT) -> Callable[[Factory], Factory]:
        """Return a decorator that registers a factory.

        A name that is taken or malformed, or a version below 1, raises an InitbenchError.
        """
        if not name or any(c.isspace() or c in "[](),=" for c in name):
            raise InitbenchError(f"{self.kind} {show(name)}: a name must not contain spaces, brackets, commas or '='")
        if version < 1:
            raise InitbenchError(f"{self.kind} {show(name)}: version must be at least 1, got {version}")

        def decorate(factory: Factory) -> Factory:
            owner = self._taken_by(name, factory)
            if owner is not None:
                raise InitbenchError(f"{self.kind} {show(name)} is already registered by {plugins.origin(owner)}")
            self._registered[name] = Component(self.kind, name, factory, version, traits, self.supplied)
            return factory

        return decorate

    def _taken_by(self, name: str, factory: Callable[..., Any]) -> str | None:
        """Return the module of another factory with this name, or the family that the name would belong to."""
        for taken in (name, name.partition("/")[0] + _FAMILY):
            builtin = self.builtins.get(taken)
            if builtin is not None and builtin != factory.__module__:
                return builtin
            registered = self._registered.get(taken)
            # The same definition may run again if a module is reloaded or a notebook's cell repeated.
            if registered is not None and (
                (registered.factory.__module__, registered.factory.__qualname__)
                != (factory.__module__, factory.__qualname__)
            ):
                return registered.module
        return None

    def names(self) -> list[str]:
        """Return the names of all components, installed plug-ins included, families as ``prefix/*``."""
        plugins.load_entry_points()
        return sorted({*self.builtins, *self._registered})

    def get(self, name: str) -> Component[TraitsT]:
        """Return a component, importing its module; an unknown name raises an UnknownNameError."""
        if name not in self._registered:
            if name in self.builtins:
                importlib.import_module(self.builtins[name])
            else:
                plugins.load_entry_points()
        if name in self._registered and not name.endswith(_FAMILY):
            return self._registered[name]
        prefix, slash, member = name.partition("/")
        family = prefix + _FAMILY
        if slash and family in self.names():
            return self._member(self._family(family), name, member)
        # The family becomes its member with this name.
        valid = [n[:-1] + member if slash and n.endswith(_FAMILY) else n for n in self.names()]
        raise UnknownNameError(f"unknown {self.kind} {show(name)}{nearest(name, valid)}")

    def find(self, name: str) -> Component[TraitsT]:
        """Return a component, or a family by its ``prefix/*``; an unknown name raises an UnknownNameError."""
        if name.endswith(_FAMILY) and name in self.names():
            family = self._family(name)
            # Its first argument is the member's name, which is part of the component's name.
            return replace(
                family, supplied=family.supplied | {next(iter(inspect.signature(family.factory).parameters))}
            )
        return self.get(name)

    def _family(self, name: str) -> Component[TraitsT]:
        if name in self.builtins:
            importlib.import_module(self.builtins[name])
        return self._registered[name]

    def _member(self, family: Component[TraitsT], name: str, member: str) -> Component[TraitsT]:
        known = self._members.get(name)
        if known is not None and known.definition is family.factory:  # a plan asks for it once per trial
            return known
        members: list[str] = list(getattr(family.traits, "members", tuple)())
        if member not in members:
            prefix = name.partition("/")[0]
            hint = "" if member in {"", "*"} else nearest(name, [f"{prefix}/{m}" for m in members], list_all=False)
            example = f" (such as {prefix}/{members[0]})" if members else ""
            raise UnknownNameError(f"unknown {self.kind} {show(name)}{hint or example}")
        traits, arguments = family.traits, family.member_arguments
        if isinstance(traits, ArchitectureTraits) and traits.member is not None:
            of_member = traits.member(member)
            arguments = of_member.arguments
            if of_member.tasks is not None:
                traits = replace(traits, tasks=of_member.tasks)
        factory = partial(family.factory, member)
        self._members[name] = replace(family, name=name, factory=factory, traits=traits, member_arguments=arguments)
        return self._members[name]
