"""Residual networks for small images, and Fixup's version of them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError


def parameters(**arguments):
    return sum(p.numel() for p in create_model("resnet", **arguments).parameters())


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        # By hand for depth 6n + 2 with batch normalization: the paper's Table 6 has 0.27 and 1.7 million.
        ({"depth": 20}, 269_722),
        ({"depth": 110}, 1_727_962),
        ({"depth": 1202}, 19_421_274),
        # One bias for each output of a convolution, by hand: 16, and 36 layers of 16, 32 and 64 channels each.
        ({"depth": 110, "conv_bias": True}, 1_727_962 + 16 + 36 * (16 + 32 + 64)),
        # The authors' code of Fixup, fixup_resnet20 and fixup_resnet110.
        ({"depth": 20, "norm": "none", "scheme": "fixup"}, 268_393),
        ({"depth": 110, "norm": "none", "scheme": "fixup"}, 1_720_138),
    ],
)
def test_the_published_numbers_of_parameters(arguments, count):
    assert parameters(**arguments) == count


def test_a_block_by_hand():
    """y = ReLU(x + B(conv(ReLU(B(conv(x)))))), with every second pixel and zeros where the shape changes."""
    model = create_model("resnet", depth=8, input_shape=(3, 8, 8)).double().eval()
    same, changing = model.groups[0][0], model.groups[1][0]
    x = torch.randn(2, 16, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def branch(block, stride):
        first, second = block.layers
        hidden = functional.conv2d(x, first.convolution.weight, stride=stride, padding=1)
        hidden = functional.relu(first.norm(hidden))
        return second.norm(functional.conv2d(hidden, second.convolution.weight, padding=1))

    torch.testing.assert_close(same(x), functional.relu(x + branch(same, 1)))
    shortcut = torch.cat([x[:, :, ::2, ::2], torch.zeros(2, 16, 4, 4).double()], 1)
    torch.testing.assert_close(changing(x), functional.relu(shortcut + branch(changing, 2)))


@pytest.mark.parametrize("changing", [False, True])
def test_a_block_of_fixup_by_hand(changing):
    """y = ReLU(m·conv(ReLU(conv(x + a) + b) + c) + d + shortcut), as the authors' code has it.

    Where the shape changes, the shortcut is every second pixel of x + a and zeros.
    """
    model = create_model("resnet", depth=8, norm="none", scheme="fixup", input_shape=(3, 8, 8)).double()
    block = model.groups[int(changing)][0]
    generator = torch.Generator().manual_seed(0)
    for parameter in block.parameters():
        nn.init.normal_(parameter, 0.0, 0.3, generator=generator)
    x = torch.randn(2, 16, 8, 8, dtype=torch.float64, generator=generator)
    first, second = block.layers
    a, b, c, d = (part.bias for part in (first.bias_a, first.bias_b, second.bias_a, block.bias))
    hidden = functional.conv2d(x + a, first.convolution.weight, stride=1 + changing, padding=1)
    branch = functional.conv2d(functional.relu(hidden + b) + c, second.convolution.weight, padding=1)
    shortcut = torch.cat([(x + a)[:, :, ::2, ::2], torch.zeros(2, 16, 4, 4).double()], 1) if changing else x
    torch.testing.assert_close(block(x), functional.relu(block.multiplier.scale * branch + d + shortcut))


def test_a_bottleneck_has_a_quarter_of_the_channels_inside():
    model = create_model("resnet", depth=11, block="bottleneck", norm="none")
    convolutions = [layer.convolution for layer in model.groups[1][0].layers]
    shapes = [tuple(convolution.weight.shape) for convolution in convolutions]
    assert shapes == [(32, 64, 1, 1), (32, 32, 3, 3), (128, 32, 1, 1)]
    strides = [convolution.stride for convolution in convolutions]
    assert strides == [(1, 1), (2, 2), (1, 1)]


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 5, 7), (3, 32, 32)])
def test_any_input_size(block, shape):
    model = create_model("resnet", depth=20, block=block, input_shape=shape, num_classes=6)
    assert model(torch.zeros(2, *shape)).shape == (2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 21}, "depth must be 6n + 2 with basic blocks (8, 14, 20, ...), got 21"),
        ({"depth": 2}, "depth must be 6n + 2 with basic blocks (8, 14, 20, ...), got 2"),
        ({"depth": 14, "block": "bottleneck"}, "depth must be 9n + 2 with bottleneck blocks (11, 20, 29, ...), got 14"),
        ({"depth": 10**7}, "depth must be at most 100000, got 10000000"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"norm": "batch", "scheme": "fixup"}, "norm must be none for scheme fixup, got batch"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("resnet", **arguments)
    assert str(refusal.value) == message


def test_the_standard_scheme_has_no_part_of_another():
    model = create_model("resnet", depth=8)
    assert {type(m) for m in model.modules() if next(m.parameters(recurse=False), None) is not None} == {
        nn.Conv2d,
        nn.BatchNorm2d,
        nn.Linear,
    }
    assert all(m.bias is None for m in model.modules() if isinstance(m, nn.Conv2d))
