"""Schemes by name: the parts that some initialization methods need in a network, put into any model by a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from initbench.errors import InitbenchError
from initbench.registry.component import Component, Factory, Registry
from initbench.registry.traits import SchemeTraits

STANDARD = "standard"
"""No scheme: a model as its architecture builds it."""

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

    The model is the function's own: it may change it and return it. ``structure`` is an `initbench.Structure`, which
    knows the model's residual branches. Further arguments are typed and have defaults; `initbench.rewrite` passes them
    on, suites take the defaults. A ValueError says why a model does not fit: the pair is then incompatible.

    Args:
        name: how suites, initializers and architectures name it.
        version: raise it when the numbers change.
        instead_of_norm: whether it stands in the place of a normalization. Architectures with an argument ``norm`` then
            refuse all but none, and give their convolutions the biases that a normalization would bring.
        keeps_function: whether a model without normalization computes the same after it.
        brings_biases: whether it puts biases of its own beside the layers, which biases of convolutions would double.
            Architectures with an argument ``conv_bias`` then refuse it.
        includes: another scheme, all of whose parts it has, so that initializers that need that one run on it where a
            suite asks for it.
        reference: the paper.

    Raises:
        InitbenchError: the name is taken, or is ``standard``, which is no scheme.
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
    """Return what an architecture can be asked for: no scheme, every registered one, and those that it alone has.

    It, or the scheme, may refuse when it is built.
    """
    return tuple(dict.fromkeys((STANDARD, *SCHEMES.names(), *architecture.traits.schemes)))
