"""Schemes by name: transforms that insert the parts that some initialization methods need into any model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from initbench.errors import InitbenchError
from initbench.registry.component import Component, Factory, Registry
from initbench.registry.traits import SchemeTraits

STANDARD = "standard"
"""The name for no scheme: a model as its architecture builds it."""

SCHEMES: Registry[SchemeTraits] = Registry(
    "scheme",
    {
        "channel_bias": "initbench.schemes.channel_bias",
        "fixup": "initbench.schemes.fixup",
        "skipinit": "initbench.schemes.skipinit",
        "weight_norm": "initbench.schemes.weight_norm",
        "weight_norm_beside_norm": "initbench.schemes.weight_norm",
    },
    frozenset({"model", "structure"}),
)


def register_scheme(
    name: str,
    version: int = 1,
    *,
    instead_of_norm: bool = False,
    keeps_function: bool = False,
    brings_biases: bool = False,
    includes: str | None = None,
    reference: str = "",
) -> Callable[[Factory], Factory]:
    """Register a scheme: a function of ``model`` and ``structure`` that returns the model with the scheme's parts.

    The function may change the model and return it. ``structure`` is an `initbench.Structure` with the model's residual
    branches. Further arguments are typed and have defaults; `initbench.rewrite` passes them on, and suites use the
    defaults. A ValueError says why a model does not fit: the pair is then incompatible.

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
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or is ``standard``, which means no scheme.
    """
    if name == STANDARD:
        raise InitbenchError("scheme 'standard': the name says that there is no scheme")
    return SCHEMES.register(
        name, version, SchemeTraits(instead_of_norm, keeps_function, brings_biases, includes, reference)
    )


def has_parts_of(scheme: str, needed: str) -> bool:
    """Return whether a network of a scheme has the parts of another one that an initializer needs."""
    included = SCHEMES.get(scheme).traits.includes if scheme in SCHEMES.names() else None
    return needed in {scheme, included}


def scheme_names(architecture: Component[Any]) -> tuple[str, ...]:
    """Return the schemes that a suite can request for an architecture: none, the registered ones, and its own.

    It, or the scheme, may refuse when it is built.
    """
    return tuple(dict.fromkeys((STANDARD, *SCHEMES.names(), *architecture.traits.schemes)))
