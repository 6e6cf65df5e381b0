"""`Initializer`: an initializer by name with its arguments, as the value of an argument."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from initbench.arguments import show
from initbench.errors import ArgumentError, UnknownNameError
from initbench.registry.component import Component, ComponentArgument, Registry
from initbench.registry.traits import InitializerTraits

INITIALIZERS: Registry[InitializerTraits] = Registry(
    "initializer",
    {
        "admin": "initbench.initializers.admin",
        "completep": "initbench.initializers.completep",
        "data_dependent_weight_norm": "initbench.initializers.data_dependent_weight_norm",
        "deepnorm": "initbench.initializers.deepnorm",
        "delta_orthogonal": "initbench.initializers.delta_orthogonal",
        "fairseq": "initbench.initializers.fairseq",
        "fairseq_0_9": "initbench.initializers.fairseq",
        "fixup": "initbench.initializers.fixup",
        "gaussian": "initbench.initializers.gaussian",
        "gpt2": "initbench.initializers.gpt2",
        "gradinit": "initbench.initializers.gradinit",
        "kaiming": "initbench.initializers.kaiming",
        "layer_scale": "initbench.initializers.layer_scale",
        "lecun": "initbench.initializers.lecun",
        "llama": "initbench.initializers.llama",
        "looks_linear": "initbench.initializers.looks_linear",
        "lsuv": "initbench.initializers.lsuv",
        "metainit": "initbench.initializers.metainit",
        "mitchell": "initbench.initializers.mitchell",
        "mup": "initbench.initializers.mup",
        "orthogonal": "initbench.initializers.orthogonal",
        "pytorch_default": "initbench.initializers.pytorch_default",
        "skipinit": "initbench.initializers.skipinit",
        "small_init": "initbench.initializers.small_init",
        "tfixup": "initbench.initializers.tfixup",
        "truncated_normal": "initbench.initializers.truncated_normal",
        "weight_norm": "initbench.initializers.weight_norm",
        "xavier": "initbench.initializers.xavier",
        "zero": "initbench.initializers.zero",
    },
)
_SPEC_KEYS = {"name", "arguments", "version", "source"}


class Initializer(ComponentArgument):
    """A registered initializer and its arguments.

    An initializer that starts from another has an argument of this type: ``base: Initializer =
    Initializer("kaiming", mode="fan_out")``. In a suite, its value is a name, or a mapping of ``name`` and arguments.

    Args:
        name: the registered name.
        arguments: of the initializer; defaults are filled in when they are first read.

    Attributes:
        name: as given.
    """

    def __init__(self, name: str, **arguments: Any) -> None:
        self.name = name
        self._given = arguments

    @property
    def component(self) -> Component[InitializerTraits]:
        """The component that is registered under the name now, also if the object was made before a registration.

        Raises:
            UnknownNameError: nothing is registered under the name.
        """
        return INITIALIZERS.get(self.name)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """All its arguments.

        Raises:
            ArgumentError: an argument is unknown or refused.
        """
        return self.component.resolve(self._given)

    def build(self) -> Any:
        """Return the result of its factory: a function of a model and an `InitializationContext`.

        Raises:
            ArgumentError: the factory refuses an argument.
        """
        return self.component.call(self.arguments)

    def to_json(self) -> dict[str, Any]:
        """Return name, arguments, version and plug-in source, as in specs and records."""
        return self.component.spec(self.arguments)

    def to_user(self) -> str | dict[str, Any]:
        """Return the initializer as in a suite: the name, or a mapping with the given arguments."""
        return {"name": self.name, **self._given} if self._given else self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Initializer) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        given = "".join(f", {key}={value!r}" for key, value in self._given.items())
        return f"Initializer({self.name!r}{given})"

    @classmethod
    def of(cls, value: Any) -> Initializer:
        """Return the initializer for a name, a mapping of a user or of a spec, or an `Initializer`.

        Raises:
            ArgumentError: another type, an argument that is refused, or an initializer that itself starts from another.
            UnknownNameError: nothing is registered under the name.
        """
        if isinstance(value, Initializer):
            made = value
        elif isinstance(value, str):
            made = cls(value)
        else:
            name, arguments = _parts(value)
            made = cls(name, **arguments)
        component = made.component
        if component.initializer_arguments:
            raise ArgumentError(f"must be an initializer that draws by itself; {made.name} starts from another one")
        component.call(made.arguments)  # so that a refused argument is reported here
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Check arguments of this type with `of`."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_validate)


def _validate(value: Any) -> Initializer:
    try:
        return Initializer.of(value)
    except UnknownNameError as error:
        raise ArgumentError(f"must be a registered name: {error}") from error


def _parts(value: Any) -> tuple[str, Mapping[str, Any]]:
    """Return name and arguments of a mapping from a user or a spec."""
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        if set(value) == _SPEC_KEYS:
            return value["name"], value["arguments"]
        return value["name"], {key: item for key, item in value.items() if key != "name"}
    raise ArgumentError(f"must be an initializer's name or {{name: ...}}, got {show(value)}")
