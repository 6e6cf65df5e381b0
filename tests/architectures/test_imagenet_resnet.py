"""Residual networks for large images against torchvision's and the counts of the papers."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torchvision
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize


def build(**arguments):
    return create_model("imagenet_resnet", **{"input_shape": (3, 224, 224), "num_classes": 1000} | arguments)


def count(**arguments):
    with torch.device("meta"):
        return sum(p.numel() for p in build(**arguments).parameters())


@pytest.mark.parametrize(
    ("depth", "parameters"),
    [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160), (152, 60_192_808)],
)
def test_the_number_of_parameters_is_torchvisions(depth, parameters):
    with torch.device("meta"):
        theirs = torchvision.models.get_model(f"resnet{depth}")
    assert sum(p.numel() for p in theirs.parameters()) == parameters
    assert count(depth=depth) == count(depth=depth, norm="group") == parameters


def test_parameter_counts_of_resnet_50_by_hand():
    """Bottlenecks of c inner channels: 4c·c + 9c² + 4c² weights; the first of a stage has another input, projected."""
    weights = 7 * 7 * 3 * 64 + 2048 * 1000 + 1000
    channels, outputs = 64, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        c = 64 * 2**stage
        weights += channels * c + 13 * c * c + channels * 4 * c + (blocks - 1) * 17 * c * c
        outputs += blocks * 6 * c + 4 * c
        channels = 4 * c
    assert count(norm="none") == weights
    assert count() == weights + 2 * outputs == 25_557_032
    assert count(norm="none", conv_bias=True) == weights + outputs
    # The authors' code of Fixup: six scalar biases and a multiplier in each block, and two biases outside.
    assert count(norm="none", scheme="fixup") == weights + 16 * 7 + 2 == 25_504_026


def torchvisions_name(name):
    """What a parameter or buffer of ours is called in torchvision's network."""
    for ours, theirs in (
        (r"^stem\.", "conv1."),
        (r"^norm\.", "bn1."),
        (r"^classifier\.", "fc."),
        (r"^stages\.(\d)\.", lambda match: f"layer{int(match[1]) + 1}."),
        (r"layers\.(\d)\.convolution", lambda match: f"conv{int(match[1]) + 1}"),
        (r"layers\.(\d)\.norm", lambda match: f"bn{int(match[1]) + 1}"),
        (r"\.projection\.", ".downsample.0."),
        (r"\.projection_norm\.", ".downsample.1."),
    ):
        name = re.sub(ours, theirs, name)
    return name


@pytest.mark.parametrize("depth", [18, 50])
@pytest.mark.parametrize("training", [True, False])
def test_with_the_same_weights_it_is_torchvisions(depth, training):
    ours, theirs = build(depth=depth).double(), torchvision.models.get_model(f"resnet{depth}").double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in theirs.state_dict().values():
            if tensor.dim() == 1:
                tensor.copy_(0.5 + torch.rand(tensor.shape, dtype=torch.float64, generator=generator))
    state = theirs.state_dict()
    assert sorted(map(torchvisions_name, ours.state_dict())) == sorted(state)
    ours.load_state_dict({name: state[torchvisions_name(name)] for name in ours.state_dict()})
    ours.train(training)
    theirs.train(training)
    x = torch.randn(2, 3, 65, 48, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)  # float64 rounding over 50 layers


def test_the_stem_for_small_images_leaves_them_their_size():
    seen = {}
    for stem in ("imagenet", "cifar"):
        model = build(depth=18, width=8, stem=stem, input_shape=(3, 32, 32))
        model.stages[0].register_forward_pre_hook(lambda _, x, stem=stem: seen.update({stem: x[0].shape[2:]}))
        assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 1000)
    assert seen == {"imagenet": (8, 8), "cifar": (32, 32)}
    assert model.stem.weight.shape == (8, 3, 3, 3)


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
@pytest.mark.parametrize("depth", [18, 50])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (3, 33, 64)])
def test_any_input_size(stem, depth, shape):
    model = build(depth=depth, width=4, stem=stem, input_shape=shape, num_classes=6)
    assert model(torch.zeros(2, *shape)).shape == (2, 6)


def test_channels_follow_the_width():
    with torch.device("meta"):
        model = build(width=8, norm="none")
    assert [stage[-1].layers[-1].convolution.out_channels for stage in model.stages] == [32, 64, 128, 256]
    assert model.stem.out_channels == 8


def test_an_activation_stands_behind_every_convolution_but_a_branchs_last_and_behind_every_sum():
    with torch.device("meta"):
        model = build(width=8, activation="swish")
    assert sum(isinstance(module, nn.SiLU) for module in model.modules()) == 1 + 16 * 3


@pytest.mark.parametrize(("depth", "power"), [(18, -1 / 2), (50, -1 / 4)])
def test_fixup_has_the_papers_laws(depth, power):
    """At first a block is its shortcut and an activation; weights within branches are times L^(-1/(2m-2))."""
    model = build(depth=depth, norm="none", scheme="fixup", num_classes=10)
    record = initialize(model, "fixup", input_shape=(2, 3, 32, 32))
    blocks = sum(len(stage) for stage in model.stages)
    inner = model.stages[2][1].layers[0].convolution
    [event] = record.tensors["stages.2.1.layers.0.convolution.weight"]
    kaiming = math.sqrt(2 / (inner.out_channels * inner.kernel_size[0] ** 2))
    assert event["std"] == pytest.approx(kaiming * blocks**power, rel=1e-12)
    [event] = record.tensors["stages.2.0.projection.weight"]
    assert event["std"] == pytest.approx(math.sqrt(2 / model.stages[2][0].projection.out_channels), rel=1e-12)
    x = torch.randn(2, model.stages[0][1].layers[0].convolution.in_channels, 8, 8)
    with torch.no_grad():
        assert torch.equal(model.stages[0][1](x), x.relu())
        assert not model(torch.randn(2, 3, 32, 32)).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 20}, "depth must be 18, 34, 50, 101 or 152, got 20"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"width": 8, "norm": "group"}, "width must be a multiple of 16 for norm group, got 8"),
        ({"scheme": "fixup"}, "norm must be none for scheme fixup, got batch"),
        (
            {"norm": "none", "scheme": "fixup", "conv_bias": True},
            "conv_bias must be false for scheme fixup, which brings biases of its own",
        ),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        build(**{"depth": 18} | arguments)
    assert str(refusal.value) == message
