"""What every scheme of the library does to our own networks."""

from __future__ import annotations

import hashlib

import pytest
import torch
from cases import batch
from small_gpt import gpt, tokens
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

import initbench
from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.registry import SCHEMES
from initbench.schemes.channel_bias import ChannelBias

KEEPING = [name for name in SCHEMES.builtins if SCHEMES.get(name).traits.keeps_function]
NORM_FREE = {
    "wrn": lambda: create_model("wrn", depth=10, width=1, norm="none", input_shape=(3, 8, 8)),
    "resnet": lambda: create_model("resnet", depth=8, norm="none", input_shape=(3, 8, 8)),
    "gpt": lambda: gpt(norm="none"),
}


@pytest.mark.parametrize("scheme", KEEPING)
@pytest.mark.parametrize("name", NORM_FREE)
def test_a_scheme_that_says_so_keeps_the_function(name, scheme):
    """To rounding of float64: multipliers of 1 and biases of 0 change nothing, nor does g·v/‖v‖ with g = ‖v‖."""
    model = NORM_FREE[name]().double().eval()
    inputs = tokens()[0] if name == "gpt" else batch((2, 3, 8, 8))[0]
    rewritten = initbench.rewrite(model, scheme, inputs=inputs)
    assert sum(p.numel() for p in rewritten.parameters()) > sum(p.numel() for p in model.parameters())
    with torch.no_grad():
        torch.testing.assert_close(rewritten(inputs), model(inputs), rtol=1e-11, atol=1e-13)


def test_schemes_that_keep_the_function_say_so():
    """SkipInit's gates are 0 at first."""
    assert KEEPING == ["fixup", "weight_norm", "weight_norm_beside_norm"]


# Parameters, and the first 12 digits of the SHA-256 of their names and sizes, before schemes were transforms.
PARAMETERS = {
    ("wrn", "standard"): (77373, "e7adc46fba15"),
    ("wrn", "fixup"): (77387, "b391a0da7e02"),
    ("wrn", "skipinit"): (77709, "449f2615e955"),
    ("wrn", "weight_norm"): (78042, "cfd9d66e7fe0"),
    ("resnet", "standard"): (74810, "dca9c89c0e31"),
    ("resnet", "fixup"): (74827, "b9891443f480"),
    ("resnet", "skipinit"): (75053, "585fbbb5e08b"),
    ("resnet", "weight_norm"): (75290, "e3640603086c"),
    ("gpt", "standard"): (1904, "93fb5cbe0749"),
    ("gpt", "fixup"): (1919, "399033e8e1eb"),
    ("gpt", "skipinit"): (1908, "2c3f22415f10"),
    ("gpt", "weight_norm"): (2048, "eba041e2610a"),
    ("plain", "standard"): (74813, "ae7570f3e903"),
    ("plain", "weight_norm"): (75290, "fe977c6b3f8c"),
    ("mlp", "standard"): (1706, "fd53b760e438"),
}


def names_and_sizes(model):
    text = "\n".join(f"{name} {tuple(p.shape)}" for name, p in model.named_parameters())
    return sum(p.numel() for p in model.parameters()), hashlib.sha256(text.encode()).hexdigest()[:12]


def build(name, scheme):
    if name == "gpt":
        return gpt(norm="none", tied=False, scheme=scheme)
    sizes = {"resnet": {"depth": 8}, "mlp": {"width": 8}}.get(name, {"depth": 10, "width": 1})
    return create_model(name, norm="none", input_shape=(3, 8, 8), scheme=scheme, **sizes)


@pytest.mark.parametrize(("name", "scheme"), PARAMETERS)
def test_names_order_and_sizes_of_parameters_are_those_that_they_always_had(name, scheme):
    assert names_and_sizes(build(name, scheme)) == PARAMETERS[name, scheme]


def test_weight_norm_is_on_the_hidden_layers_of_a_perceptron():
    model = create_model("mlp", width=8, scheme="weight_norm")
    assert [name for name, m in model.named_modules() if isinstance(m, nn.Linear) and is_parametrized(m)] == [
        "linear1",
        "linear2",
    ]
    with pytest.raises(ArgumentError, match=r"^norm must be none for scheme weight_norm, got batch$"):
        create_model("mlp", norm="batch", scheme="weight_norm")


@pytest.mark.parametrize(("name", "norms"), [("wrn", 7), ("plain", 7), ("resnet", 7), ("mlp", 2)])
def test_channel_biases_stand_where_the_norms_were(name, norms):
    """Of wrn one before each of six convolutions in blocks and one at the end, of resnet one behind each of seven."""
    sizes = {"resnet": {"depth": 8}, "mlp": {"width": 8}}.get(name, {"depth": 10, "width": 1})
    model = create_model(name, norm="batch", scheme="channel_bias", input_shape=(3, 8, 8), **sizes)
    assert sum(isinstance(module, ChannelBias) for module in model.modules()) == norms
    assert not any(isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) for module in model.modules())
    with pytest.raises(ArgumentError, match=r"^channel_bias: .* has no BatchNorm, "):
        create_model(name, norm="none", scheme="channel_bias", input_shape=(3, 8, 8), **sizes)


@pytest.mark.parametrize("scheme", ["fixup", "skipinit", "weight_norm"])
def test_a_network_can_be_built_without_values(scheme):
    with torch.device("meta"):
        model = build("resnet", scheme)
    assert all(p.is_meta for p in model.parameters())
    assert names_and_sizes(model) == PARAMETERS["resnet", scheme]
