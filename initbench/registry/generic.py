"""One generic registry: components of one kind by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from initbench import plugins
from initbench.arguments import nearest, show
from initbench.errors import InitbenchError, UnknownNameError
from initbench.registry.component import Component, TraitsT
from initbench.registry.traits import ArchitectureTraits

Factory = TypeVar("Factory", bound=Callable[..., Any])
_FAMILY = "/*"


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
    _members: dict[str, Component[TraitsT]] = field(default_factory=dict)

    def register(self, name: str, version: int, traits: TraitsT) -> Callable[[Factory], Factory]:
        """Return a decorator that registers a factory.

        Raises:
            InitbenchError: the name is taken or malformed, or the version is below 1.
        """
        if not name or any(c.isspace() or c in "[](),=" for c in name):
            raise InitbenchError(f"{self.kind} {show(name)}: a name has no spaces, brackets, commas or '='")
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
        # A family stands for its member of the name that is asked for.
        valid = [n[:-1] + member if slash and n.endswith(_FAMILY) else n for n in self.names()]
        raise UnknownNameError(f"unknown {self.kind} {show(name)}{nearest(name, valid)}")

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
        known = self._members.get(name)
        if known is not None and known.definition is family.factory:  # a plan asks for it once per trial
            return known
        members: list[str] = list(getattr(family.traits, "members", tuple)())
        if member not in members:
            prefix = name.partition("/")[0]
            hint = "" if member in {"", "*"} else nearest(name, [f"{prefix}/{m}" for m in members], list_all=False)
            example = f" (such as {prefix}/{members[0]})" if members else ""
            raise UnknownNameError(f"unknown {self.kind} {show(name)}{hint or example}")
        self._members[name] = self._made(family, name, member)
        return self._members[name]

    def _made(self, family: Component[TraitsT], name: str, member: str) -> Component[TraitsT]:
        factory, traits = partial(family.factory, member), family.traits
        own: tuple[inspect.Parameter, ...] = ()
        if isinstance(traits, ArchitectureTraits) and traits.member is not None:
            known = traits.member(member)
            own = known.arguments
            if known.tasks is not None:
                traits = replace(traits, tasks=known.tasks)
        return Component(self.kind, name, factory, family.version, traits, family.supplied, own)


def _definition(factory: Callable[..., Any]) -> tuple[str, str]:
    return factory.__module__, factory.__qualname__
