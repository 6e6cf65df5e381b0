"""Biases of convolutions: one for each channel, none beside those that a scheme brings."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError

SIZES = {
    "wrn": {"depth": 10, "width": 1},
    "plain": {"depth": 10, "width": 1},
    "resnet": {"depth": 8},
    "vgg": {"depth": 11, "width": 0.25},
    "densenet": {"depth": 10, "growth": 4},
    "imagenet_resnet": {"depth": 18, "width": 4},
}
RESIDUAL = ["wrn", "resnet", "imagenet_resnet"]


def build(name, **arguments):
    return create_model(name, input_shape=(3, 8, 8), **SIZES[name], **arguments)


def count(model):
    return sum(p.numel() for p in model.parameters())


def channels(model):
    """How many outputs all convolutions together have."""
    return sum(module.out_channels for module in model.modules() if isinstance(module, nn.Conv2d))


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("name", SIZES)
def test_each_output_of_a_convolution_has_one(name, norm):
    without, given = (build(name, norm=norm, conv_bias=bias) for bias in (False, True))
    assert all(module.bias is None for module in without.modules() if isinstance(module, nn.Conv2d))
    assert count(given) == count(without) + channels(without)
    assert {n for n, _ in given.named_parameters()} > {n for n, _ in without.named_parameters()}


@pytest.mark.parametrize(
    ("scheme", "name"),
    [*(("weight_norm", name) for name in SIZES), *(("skipinit", name) for name in RESIDUAL)],
)
def test_where_a_scheme_gives_convolutions_biases_they_have_one_each(scheme, name):
    models = [build(name, norm="none", scheme=scheme, conv_bias=bias) for bias in (False, True)]
    shapes = [[(n, p.shape) for n, p in model.named_parameters()] for model in models]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", SIZES)
def test_they_are_refused_beside_biases_that_a_scheme_brings(name):
    model = build(name, norm="batch", scheme="channel_bias")
    assert all(module.bias is None for module in model.modules() if isinstance(module, nn.Conv2d))
    for scheme, norm in (("channel_bias", "batch"), ("fixup", "none")):
        with pytest.raises(ArgumentError) as refusal:
            build(name, norm=norm, scheme=scheme, conv_bias=True)
        assert str(refusal.value) == f"conv_bias must be false for scheme {scheme}, which brings biases of its own"


@pytest.mark.parametrize(("conv_bias", "parameters"), [(False, 36_479_194), (True, 36_489_290)])
def test_wrn_28_10(conv_bias, parameters):
    """GradInit's authors print 36.49 million, those of the paper 36.5."""
    with torch.device("meta"):
        assert count(create_model("wrn", conv_bias=conv_bias)) == parameters
