"""LayerScale: one value for all gates of residual branches."""

from __future__ import annotations

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
    with pytest.raises(ArgumentError) as refused:
        initbench.initialize(timm.create_model("resnet18"), "layer_scale", value=float("inf"))
    assert refused.value.argument == "value"
