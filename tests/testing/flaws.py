"""What the broken initializers share: the table that they are in, and how it is done right."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from initbench.registry import Initializer


@dataclass(frozen=True)
class Flaw:
    """A broken initializer.

    Attributes:
        factory: of the initializer.
        property: the check that finds the flaw, and no other does.
        message: what that check says.
    """

    factory: object
    property: str
    message: str


FLAWS = []


def broken(found, message):
    """Put a factory into the table."""

    def decorate(factory):
        FLAWS.append(Flaw(factory, found, message))
        return factory

    return decorate


def broken_apply(found, message, *, starts_from_another=False):
    """Put a factory into the table that returns the decorated function, which may start from another initializer."""

    def decorate(apply):
        def alone():
            return apply

        def after_another(base: Initializer | None = Initializer("kaiming")):
            def both(model, context):
                context.apply(base, model)
                apply(model, context)

            return both

        factory = after_another if starts_from_another else alone
        factory.__name__ = apply.__name__
        broken(found, message)(factory)
        return apply

    return decorate


def trainable(model):
    """The names and parameters that an initializer may change."""
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def draw(model, context, std=1.0):
    """What is right: every parameter from a generator of its own, and recorded."""
    for name, parameter in trainable(model):
        nn.init.normal_(parameter, 0.0, std, generator=context.generator(name))
        context.record.drawn(name, "normal")
