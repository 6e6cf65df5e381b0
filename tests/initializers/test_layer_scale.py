"""LayerScale: one value for all gates of residual branches."""

from __future__ import annotations

import math

import pytest
import timm
import torch
from cases import batch
from recorded import filled

import initbench
from initbench.errors import ArgumentError, InitializationError


def test_the_value_is_that_of_the_paper_for_the_depth():
    """0.1 up to 18 blocks, 1e-5 up to 24, 1e-6 above (the definition of LayerScale)."""
    for depth, value in ((18, 0.1), (24, 1e-5), (25, 1e-6)):
        model = timm.create_model(
            "vit_tiny_patch16_224", img_size=16, depth=depth, embed_dim=24, num_heads=2, init_values=0.7
        )
        record = initbench.initialize(model, "layer_scale", input_shape=(1, 3, 16, 16))
        gates = [p for name, p in model.named_parameters() if name.endswith("gamma")]
        assert len(gates) == 2 * depth == record.conditions["gates"]
        assert all(torch.equal(gate, torch.full((24,), value)) for gate in gates)
        assert record.tensors["blocks.0.ls1.gamma"] == [filled(value)]


@pytest.mark.parametrize(("depth", "value"), [(18, 0.1), (24, 1e-5), (36, 1e-6)])
def test_class_attention_does_not_count(depth, value):
    """DeiT's code has 1e-5 for 24 blocks and two of class attention, and the rule of the paper .1 for 18 and two."""
    model = timm.create_model("cait_xxs24_224", img_size=32, depth=depth, embed_dim=24, num_heads=2, num_classes=10)
    assert len(model.blocks_token_only) == 2
    record = initbench.initialize(model, "layer_scale")
    assert record.conditions["value"] == value
    assert all(p.eq(value).all() for name, p in model.named_parameters() if "gamma" in name)


def test_weights_are_cut_off_at_2_and_not_at_2_deviations():
    """As timm's `trunc_normal_`, whose bounds are absolute: of 0.02 all tails are left, of 1.5 few."""
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=16, depth=2, embed_dim=96, num_heads=2, init_values=0.7
    ).double()
    weight = model.blocks[0].mlp.fc1.weight
    size = {"input_shape": (2, 3, 16, 16)}
    initbench.initialize(model, "layer_scale", **size)
    # Of 36,864 normal numbers the largest lies near 4.3 deviations.
    assert weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert 3.5 < weight.abs().max().item() / 0.02 < 6
    initbench.initialize(model, "layer_scale", std=1.5, **size)
    assert 1.95 < weight.abs().max().item() <= 2
    # The density near the cut is that of the uncut law, exp(−x² / 2σ²) times that at 0.
    near = [((weight.abs() - centre).abs() < 0.05).sum().item() for centre in (0.05, 1.95)]
    assert near[1] / near[0] == pytest.approx(math.exp(-(1.95**2) / 4.5), rel=0.15)


@pytest.mark.parametrize(("name", "gate"), [("convnext_atto", "gamma"), ("cait_xxs24_224", "gamma_1")])
def test_gates_that_are_parameters_of_the_block(name, gate):
    model = timm.create_model(name, num_classes=10)
    initbench.initialize(model, "layer_scale", value=0.25, std=0.05)
    gates = [p for key, p in model.named_parameters() if key.endswith(gate)]
    assert len(gates) >= 12
    assert all(p.eq(0.25).all() for p in gates)
    weight = max((p for p in model.parameters() if p.dim() > 1), key=torch.numel)
    assert weight.std().item() == pytest.approx(0.05, rel=0.02)


def test_rezero_is_the_value_0_on_the_gates_of_skipinit():
    """Bachlechner et al., 2021: every block is its shortcut at first."""
    model = initbench.rewrite(timm.create_model("resnet18"), "skipinit")
    initbench.initialize(model, "layer_scale", value=0.0)
    x = batch((2, 64, 8, 8), dtype=torch.float32)[0]
    with torch.no_grad():
        assert torch.equal(model.layer1(x), x.relu())


def test_what_it_refuses():
    message = "layer_scale: no residual branch ends in a gate; initbench.rewrite(model, 'skipinit') puts gates there"
    with pytest.raises(InitializationError) as raised:
        initbench.initialize(timm.create_model("resnet18"), "layer_scale")
    assert str(raised.value) == message
    for argument, value in (("value", math.inf), ("std", 0.0), ("std", 1e4)):
        with pytest.raises(ArgumentError) as refused:
            initbench.initialize(timm.create_model("resnet18"), "layer_scale", **{argument: value})
        assert refused.value.argument == argument
