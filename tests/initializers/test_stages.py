"""Initializers that start from others: who changed what, where one of them did not say so."""

from __future__ import annotations

import pytest
import torch
from recorded import UNTOUCHED, scaled
from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.registry import Initializer, register_initializer

pytestmark = pytest.mark.filterwarnings("ignore:outer passes over")  # these set what a test asks for

A, B, C = ({"event": "set_by", "initializer": name} for name in ("outer", "silent", "first"))


def layers():
    return nn.ModuleDict({name: nn.Linear(2, 2, bias=False) for name in ("w", "x", "y")})


def add_one(*names):
    """An initializer that adds 1 to some weights and says nothing."""

    def apply(model, _context):
        with torch.no_grad():
            for name in names:
                model[name].weight.add_(1.0)

    return apply


@pytest.fixture
def silent(scratch_registry):
    """An initializer, to start from, that changes w and x and says nothing."""
    del scratch_registry
    register_initializer("silent")(lambda: add_one("w", "x"))


def outer(apply):
    """Register an initializer that starts from `silent`."""

    def factory(base: Initializer | None = Initializer("silent")):
        return lambda model, context: apply(model, context, base)

    register_initializer("outer")(factory)


@pytest.mark.usefixtures("silent")
def test_what_is_not_said_is_set_by_the_one_that_did_it():
    def apply(model, context, base):
        context.apply(base, model)
        add_one("x", "y")(model, context)

    outer(apply)
    record = initialize(layers(), "outer")
    assert record.tensors == {"w.weight": [B], "x.weight": [B, A], "y.weight": [A]}


@pytest.mark.usefixtures("silent")
def test_changes_before_the_other_are_not_the_others():
    def apply(model, context, base):
        add_one("y")(model, context)
        context.apply(base, model)

    outer(apply)
    assert initialize(layers(), "outer").tensors == {"y.weight": [A], "w.weight": [B], "x.weight": [B]}


@pytest.mark.usefixtures("silent")
def test_what_is_said_is_not_said_again():
    def apply(model, context, base):
        context.apply(base, model)
        with torch.no_grad():
            model["w"].weight.mul_(2.0)
        context.record.scaled("w.weight", 2.0)

    outer(apply)
    record = initialize(layers(), "outer")
    assert record.tensors == {"w.weight": [B, scaled(2.0)], "x.weight": [B], "y.weight": [UNTOUCHED]}


@pytest.mark.usefixtures("silent")
def test_several_of_them_one_after_another():
    register_initializer("first")(lambda: add_one("w"))

    def both(before: Initializer = Initializer("first"), after: Initializer | None = Initializer("silent")):
        def apply(model, context):
            context.apply(before, model)
            context.apply(after, model)

        return apply

    register_initializer("outer")(both)
    assert initialize(layers(), "outer").tensors == {"w.weight": [C, B], "x.weight": [B], "y.weight": [UNTOUCHED]}
    assert initialize(layers(), "outer", after=None).tensors["w.weight"] == [C]


@pytest.mark.usefixtures("silent")
def test_none_takes_the_model_as_it_is():
    outer(lambda model, context, base: context.apply(base, model))
    model = layers()
    before = model["w"].weight.detach().clone()
    record = initialize(model, "outer", base=None)
    assert torch.equal(model["w"].weight, before)
    assert record.tensors == {name: [UNTOUCHED] for name in ("w.weight", "x.weight", "y.weight")}


@pytest.mark.usefixtures("silent")
def test_one_that_goes_on_where_the_other_cannot():
    def refuse(_model, _context):
        raise InitializationError("wrong weather")

    register_initializer("first")(lambda: refuse)

    def apply(model, context, base):
        try:
            context.apply(Initializer("first"), model)
        except InitializationError:
            context.apply(base, model)
        add_one("y")(model, context)

    outer(apply)
    assert initialize(layers(), "outer").tensors == {"w.weight": [B], "x.weight": [B], "y.weight": [A]}


@pytest.mark.usefixtures("silent")
def test_a_parameter_that_another_replaces_is_its_fault():
    def replace(model, _context):
        model["x"].weight = nn.Parameter(torch.zeros(2, 2))

    register_initializer("first")(lambda: replace)
    outer(lambda model, context, base: context.apply(base, model))
    with pytest.raises(InitializationError, match="first added, removed or replaced a parameter"):
        initialize(layers(), "outer", base="first")
