"""The residual multilayer perceptron, and the law of weight normalization that it is there for."""

from __future__ import annotations

import math

import pytest
import torch
from cases import randomize
from torch.nn import functional

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_network_is_the_written_out_function(norm):
    model = create_model("residual_mlp", depth=3, width=32, norm=norm, input_shape=(2, 3, 4), num_classes=5)
    randomize(model, 0.3)
    x = torch.randn(7, 2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = functional.linear(x.reshape(7, 24), model.stem.weight, model.stem.bias)
    for block in model.blocks:
        hidden = functional.linear(y, block.linear1.weight, block.linear1.bias)
        if norm == "batch":
            hidden = functional.batch_norm(hidden, None, None, block.norm.weight, block.norm.bias, training=True)
        elif norm == "group":
            hidden = functional.group_norm(hidden, 2, block.norm.weight, block.norm.bias)
        y = y + functional.linear(hidden.relu(), block.linear2.weight, block.linear2.bias)
    torch.testing.assert_close(model(x), functional.linear(y, model.classifier.weight, model.classifier.bias))


@pytest.mark.parametrize(("norm", "bias", "extra"), [("none", True, 2), ("batch", True, 3), ("none", False, 0)])
def test_parameter_counts_by_hand(norm, bias, extra):
    model = create_model("residual_mlp", depth=4, width=16, norm=norm, bias=bias, input_shape=(1, 3, 3))
    expected = 9 * 16 + 4 * (2 * 16 * 16 + extra * 16) + 10 * 16 + bias * (16 + 10)
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [10, 100])
def test_the_energy_of_a_weight_normalized_stage_grows_by_less_than_e(blocks):
    """(1 + 1/B)^B, Arpit et al., 2019, theorem 2: half of the units of a ReLU pass, which κ = 2 makes good."""
    model = create_model("residual_mlp", depth=blocks, width=256, scheme="weight_norm", input_shape=(1, 16, 16))
    initialize(model, "weight_norm", input_shape=(2, 1, 16, 16))
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ratio = (model.blocks(x).square().sum() / x.square().sum()).item()
    # At this width the share of a block's energy that its ReLU passes varies by some hundredths.
    assert ratio == pytest.approx((1 + 1 / blocks) ** blocks, rel=0.1)


@pytest.mark.parametrize("scheme", ["fixup", "skipinit"])
def test_schemes_have_their_parts_in_each_block(scheme):
    """Fixup: a bias before each linear layer but the first, a multiplier in each block; SkipInit a gate in each."""
    model = create_model("residual_mlp", depth=3, width=8, scheme=scheme, input_shape=(1, 2, 2))
    plain = create_model("residual_mlp", depth=3, width=8, input_shape=(1, 2, 2))
    more = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters())
    assert more == {"fixup": 3 + 2 * 3 + 1, "skipinit": 3}[scheme]
    initialize(model, scheme, input_shape=(2, 1, 2, 2))
    x = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(model.blocks(x), x)
        if scheme == "fixup":
            assert functional.cross_entropy(model(x[:, :4].reshape(5, 1, 2, 2)), torch.arange(5)) == math.log(10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be at least 1 and at most 100000, got 0"),
        ({"depth": 10**7}, "depth must be at least 1 and at most 100000, got 10000000"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"width": 24, "norm": "group"}, "width must be a multiple of 16 for norm group, got 24"),
        ({"norm": "batch", "scheme": "skipinit"}, "norm must be none for scheme skipinit, got batch"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("residual_mlp", **arguments)
    assert str(refusal.value) == message
