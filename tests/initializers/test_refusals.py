"""What initializers and `initialize` refuse, with its message; the model is left as it was."""

from __future__ import annotations

import math

import pytest
from cases import assert_same_state, small, state
from torch import nn

from initbench.errors import ArgumentError, InitbenchError, InitializationError, UnknownNameError
from initbench.initializers.initialize import initialize
from initbench.registry import INITIALIZERS


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("kaiming", {"gain": 0.0}, "gain must be a finite number above 0, got 0.0"),
        ("xavier", {"gain": -1.0}, "gain must be a finite number above 0, got -1.0"),
        ("orthogonal", {"gain": -2}, "gain must be a finite number above 0, got -2.0"),
        ("delta_orthogonal", {"gain": 0}, "gain must be a finite number above 0, got 0.0"),
        ("gaussian", {"std": -0.1}, "std must be a finite number above 0, got -0.1"),
        ("truncated_normal", {"bound": 1e-4}, "bound must be at least 0.001, got 0.0001"),
        ("metainit", {"steps": 0}, "steps must be at least 1, got 0"),
        ("metainit", {"lr": 0.0}, "lr must be a finite number above 0, got 0.0"),
        ("metainit", {"momentum": 1.0}, "momentum must be at least 0 and below 1, got 1.0"),
        ("metainit", {"momentum": -0.1}, "momentum must be at least 0 and below 1, got -0.1"),
        ("metainit", {"eps": 0.0}, "eps must be a finite number above 0, got 0.0"),
    ],
)
def test_what_factories_refuse(name, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        initialize(small("plain"), name, **arguments)
    assert str(caught.value) == message
    assert caught.value.argument == next(iter(arguments))


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["kaiming", "xavier", "orthogonal", "delta_orthogonal"])
def test_gains_are_finite(name, value):
    with pytest.raises(ValueError, match=r"^gain must be a finite number above 0"):
        INITIALIZERS.get(name).factory(gain=value)


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("kaimin", {}, UnknownNameError, r"unknown initializer 'kaimin' \(did you mean 'kaiming'\?\)"),
        ("kaiming", {"mode": "fan_on"}, ArgumentError, "mode: must be one of fan_in, fan_out; got 'fan_on'"),
        ("kaiming", {"gian": 1.0}, ArgumentError, "gian: unknown key"),
        ("kaiming", {"base": "xavier"}, InitializationError, "base: kaiming draws the parameters itself"),
        ("metainit", {"base": "metainit"}, InitializationError, "base: metainit is a tuner"),
        ("metainit", {"base": "nothing"}, UnknownNameError, "unknown initializer 'nothing'"),
        ("metainit", {"base": {"gain": 1.0}}, InitializationError, "base must be a distribution's name"),
        ("metainit", {"base": {"name": "kaiming", "gain": -1.0}}, ArgumentError, "gain must be"),
        ("kaiming", {"input_shape": (0, 3, 8, 8)}, InitializationError, r"input_shape must be \(batch, ...\)"),
        ("kaiming", {"num_classes": 0}, InitializationError, "num_classes must be at least 1, got 0"),
        ("metainit", {}, InitializationError, "give input_shape and num_classes, or batches"),
    ],
)
def test_what_initialize_refuses(name, options, error, message):
    model = small("plain")
    before = state(model)
    with pytest.raises(error, match="^" + message if error is not InitializationError else message):
        initialize(model, name, **options)
    assert_same_state(before, state(model))


def test_models_without_values_are_refused():
    with pytest.raises(InitbenchError, match="weight has no storage yet"):
        initialize(nn.LazyLinear(3), "kaiming")
    with pytest.raises(InitbenchError, match="weight has no storage yet"):
        initialize(nn.Linear(3, 3, device="meta"), "kaiming")
