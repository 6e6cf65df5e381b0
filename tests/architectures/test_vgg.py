"""VGG networks for small images against the paper's table, counts by hand and a function written out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from cases import randomize
from torch import nn
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError

CONFIGURATIONS = {
    11: [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    13: [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    16: [64, 64, "M", 128, 128, "M", *[256] * 3, "M", *[512] * 3, "M", *[512] * 3, "M"],
    19: [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}
"""Simonyan & Zisserman, table 1, columns A, B, D and E: channels of convolutions, and max poolings."""


def count(**arguments):
    with torch.device("meta"):
        return sum(p.numel() for p in create_model("vgg", **arguments).parameters())


@pytest.mark.parametrize("depth", CONFIGURATIONS)
def test_the_layers_are_those_of_the_papers_table(depth):
    with torch.device("meta"):
        features = create_model("vgg", depth=depth).features
    found = [m.out_channels if isinstance(m, nn.Conv2d) else "M" for m in features if hasattr(m, "kernel_size")]
    assert found == CONFIGURATIONS[depth]
    assert all(m.kernel_size == (3, 3) and m.padding == (1, 1) for m in features if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize("depth", CONFIGURATIONS)
def test_parameter_counts_by_hand(depth):
    channels = [3, *(c for c in CONFIGURATIONS[depth] if c != "M")]
    weights = sum(9 * a * b for a, b in pairwise(channels)) + 5130
    outputs = sum(channels[1:])
    assert count(depth=depth) == weights + 2 * outputs
    assert count(depth=depth, norm="group", conv_bias=True) == weights + 3 * outputs
    assert count(depth=depth, norm="none") == count(depth=depth, norm="none", activation="tanh") == weights


def test_the_network_of_gradinits_authors():
    """Their paper's table 8 has 20.04 million; without BatchNorm two parameters per channel fewer."""
    assert count(depth=19, conv_bias=True) == 20_040_522
    assert count(depth=19, conv_bias=True, norm="none") == 20_040_522 - 2 * 5504


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
@pytest.mark.parametrize("activation", ["relu", "swish", "tanh"])
def test_network_is_the_written_out_function(norm, activation):
    """At 64 pixels, where pooling leaves 2 × 2, of which the mean is taken."""
    arguments = {"depth": 11, "width": 0.25, "norm": norm, "activation": activation, "conv_bias": True}
    model = randomize(create_model("vgg", **arguments, input_shape=(2, 64, 64), num_classes=7), 0.1)
    state = model.state_dict()
    x = torch.randn(3, 2, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y, index = x, 0
    for item in CONFIGURATIONS[11]:
        if item == "M":
            y = functional.max_pool2d(y, 2)
            continue
        index += 1
        y = functional.conv2d(
            y, state[f"features.convolution{index}.weight"], state[f"features.convolution{index}.bias"], padding=1
        )
        if norm != "none":
            scale, shift = (state[f"features.norm{index}.{part}"][:, None, None] for part in ("weight", "bias"))
            groups = y.unflatten(1, (-1, 16)) if norm == "group" else y.unsqueeze(2)
            over = (2, 3, 4) if norm == "group" else (0, 3, 4)
            variance, mean = torch.var_mean(groups, over, correction=0, keepdim=True)
            y = ((groups - mean) / (variance + 1e-5).sqrt()).flatten(1, 2) * scale + shift
        y = {"relu": torch.relu, "swish": functional.silu, "tanh": torch.tanh}[activation](y)
    expected = y.mean((2, 3)) @ state["classifier.weight"].T + state["classifier.bias"]
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)  # float64 rounding over 9 layers


def test_of_an_image_of_32_pixels_one_is_left():
    model = create_model("vgg", depth=11, width=0.25, norm="none")
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    features = model.features(x)
    assert features.shape == (2, 128, 1, 1)
    assert torch.equal(model(x), model.classifier(features.flatten(1)))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (1, 28, 28), (3, 33, 64)])
def test_any_input_size(shape):
    """Halved five times, rounded up."""
    model = create_model("vgg", depth=11, width=0.25, norm="group", input_shape=shape, num_classes=6)
    x = torch.zeros(2, *shape)
    assert model.features(x).shape[2:] == (-(-shape[1] // 32), -(-shape[2] // 32))
    assert model(x).shape == (2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 12}, "depth must be 11, 13, 16 or 19, got 12"),
        ({"width": 0.3}, "width must be a multiple of 1/64 above 0, so that channels are whole, got 0.3"),
        ({"width": 0.0}, "width must be a multiple of 1/64 above 0, so that channels are whole, got 0.0"),
        ({"width": 0.125, "norm": "group"}, "width must be a multiple of 16 for norm group, got 8"),
        ({"norm": "batch", "scheme": "weight_norm"}, "norm must be none for scheme weight_norm, got batch"),
        (
            {"conv_bias": True, "scheme": "channel_bias"},
            "conv_bias must be false for scheme channel_bias, which brings biases of its own",
        ),
        ({"norm": "none", "scheme": "fixup"}, "fixup: no residual branches are found in VGG"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("vgg", **{"depth": 11, "width": 0.25} | arguments)
    assert str(refusal.value) == message
