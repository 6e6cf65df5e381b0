"""What the broken initializers share: the table that they are in, and how it is done right."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Flaw:
    """A broken initializer.

    Attributes:
        factory: of the initializer.
        property: the check that finds the flaw, and no other does.
        message: what that check says.
        tuner: whether it is registered as one.
    """

    factory: object
    property: str
    message: str
    tuner: bool = False


FLAWS = []


def broken(found, message, *, tuner=False):
    """Put a factory into the table."""

    def decorate(factory):
        FLAWS.append(Flaw(factory, found, message, tuner))
        return factory

    return decorate


def broken_apply(found, message, *, tuner=False):
    """Put a factory without arguments into the table, that returns the decorated function."""

    def decorate(apply):
        def factory():
            return apply

        factory.__name__ = apply.__name__
        broken(found, message, tuner=tuner)(factory)
        return apply

    return decorate


def trainable(model):
    """The names and parameters that an initializer may change."""
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def draw(model, context, std=1.0):
    """What is right: every parameter from a generator of its own, and noted."""
    for name, parameter in trainable(model):
        nn.init.normal_(parameter, 0.0, std, generator=context.generator(name))
        context.record.note(name, "drawn: normal")
