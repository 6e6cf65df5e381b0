"""DenseNets for small images against the paper's figures, torchvision's blocks and counts by hand."""

from __future__ import annotations

import pytest
import torch
from cases import randomize
from torch.nn import functional
from torchvision.models import DenseNet

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError


def count(**arguments):
    with torch.device("meta"):
        return sum(p.numel() for p in create_model("densenet", **arguments).parameters())


def test_the_networks_of_the_papers():
    """Huang et al., table 2: 0.8 and 1.0 million; the counts of GradInit's authors' DenseNet-100."""
    assert count() == 769_162
    assert count(norm="none", conv_bias=True) == 748_336
    assert round(count(depth=40, bottleneck=False, compression=1.0) / 1e6, 1) == 1.0
    assert round(count(depth=100, growth=24, bottleneck=False, compression=1.0) / 1e6, 1) == 27.2
    assert round(count(depth=250, growth=24) / 1e6, 1) == 15.3


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("conv_bias", [False, True])
@pytest.mark.parametrize("bottleneck", [False, True])
def test_parameter_counts_by_hand(norm, conv_bias, bottleneck):
    """Three blocks of two layers, growth 4, half of the channels behind each transition."""
    bias, scale = int(conv_bias), 2 if norm == "batch" else 0
    c = 8 if bottleneck else 16
    total = 27 * c + bias * c
    for block in range(3):
        for _ in range(2):
            if bottleneck:
                total += scale * c + 16 * c + 16 * bias + scale * 16 + 9 * 16 * 4 + 4 * bias
            else:
                total += scale * c + 9 * c * 4 + 4 * bias
            c += 4
        if block < 2:
            total += scale * c + c * (c // 2) + bias * (c // 2)
            c //= 2
    total += scale * c + 10 * c + 10
    depth = 16 if bottleneck else 10
    assert count(depth=depth, growth=4, bottleneck=bottleneck, norm=norm, conv_bias=conv_bias) == total


def theirs_by_our_names(name):
    """Torchvision's name of a parameter or buffer of a network with bottlenecks."""
    part, *rest = name.split(".")
    if part == "blocks":
        block, layer, _, unit, kind, tensor = rest
        kind = {"norm": "norm", "convolution": "conv"}[kind] + str(int(unit) + 1)
        return f"features.denseblock{int(block) + 1}.denselayer{int(layer) + 1}.{kind}.{tensor}"
    if part == "transitions":
        return f"features.transition{int(rest[0]) + 1}.{ {'norm': 'norm', 'convolution': 'conv'}[rest[1]] }.{rest[2]}"
    return {"norm": "features.norm5.", "classifier": "classifier."}[part] + rest[0]


@pytest.mark.parametrize("training", [True, False])
def test_behind_the_stem_it_is_torchvisions_network(training):
    """Torchvision has a norm, an activation and pooling before the first block, which are taken out here."""
    ours = randomize(create_model("densenet", depth=22, growth=6, input_shape=(3, 16, 16)), 0.3)
    theirs = DenseNet(6, (3, 3, 3), 12, num_classes=10).double()
    for name in ("norm0", "relu0", "pool0"):
        setattr(theirs.features, name, torch.nn.Identity())
    theirs.features.conv0 = ours.stem
    generator = torch.Generator().manual_seed(1)
    for name, buffer in ours.named_buffers():
        if name.endswith(("mean", "var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, dtype=torch.float64, generator=generator))
    state = {theirs_by_our_names(n): t.clone() for n, t in ours.state_dict().items() if not n.startswith("stem")}
    theirs.load_state_dict(state | {"features.conv0.weight": ours.stem.weight})
    ours.train(training)
    theirs.train(training)
    x = torch.randn(4, 3, 16, 16, dtype=torch.float64, generator=generator)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-11, atol=1e-11)


def test_a_layer_without_bottleneck_by_hand():
    model = randomize(create_model("densenet", depth=7, growth=3, bottleneck=False, norm="none", conv_bias=True))
    layer = model.blocks[0][0]
    x = torch.randn(2, 16, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    convolution = layer.units[0].convolution
    new = functional.conv2d(x.relu(), convolution.weight, convolution.bias, padding=1)
    torch.testing.assert_close(layer(x), torch.cat([x, new], 1))


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (1, 28, 28), (3, 33, 64)])
def test_any_input_size(shape):
    model = create_model("densenet", depth=10, growth=4, input_shape=shape, num_classes=6)
    assert model(torch.zeros(2, *shape)).shape == (2, 6)


def test_a_pixel_that_is_left_alone_is_its_own_mean():
    """Sides that are odd are rounded up when they are halved."""
    x = torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    pooled = create_model("densenet", depth=10, growth=4).pool(x)
    assert pooled.shape == (1, 2, 2, 2)
    assert torch.equal(pooled[..., 1, 1], x[..., 2, 2])
    torch.testing.assert_close(pooled[..., 0, 0], x[..., :2, :2].mean((2, 3)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 12}, "depth must be 6n + 4 with bottleneck (10, 16, 22, ...), got 12"),
        ({"depth": 4}, "depth must be 6n + 4 with bottleneck (10, 16, 22, ...), got 4"),
        ({"depth": -2}, "depth must be 6n + 4 with bottleneck (10, 16, 22, ...), got -2"),
        ({"depth": 12, "bottleneck": False}, "depth must be 3n + 4 without bottleneck (7, 10, 13, ...), got 12"),
        ({"depth": 10**6}, "depth must be at most 1000, got 1000000"),
        ({"growth": 0}, "growth must be at least 1, got 0"),
        ({"norm": "group"}, "growth must be a multiple of 16 for norm group, got 12"),
        (
            {"norm": "group", "growth": 16},
            "compression must leave a multiple of 16 channels for norm group, leaves 24 of 48",
        ),
        ({"compression": 1.5}, "compression must be above 0 and at most 1, got 1.5"),
        ({"compression": 0.001}, "compression must leave a channel of 36, got 0.001"),
        ({"norm": "batch", "scheme": "weight_norm"}, "norm must be none for scheme weight_norm, got batch"),
        ({"norm": "none", "scheme": "skipinit"}, "skipinit: no residual branches are found in DenseNet"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("densenet", **{"depth": 10} | arguments)
    assert str(refusal.value) == message


def test_group_norm():
    model = create_model("densenet", depth=16, growth=16, norm="group")
    assert model(torch.zeros(2, 3, 8, 8)).shape == (2, 10)
