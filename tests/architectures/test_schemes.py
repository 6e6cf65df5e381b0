"""The parts that schemes put into networks."""

from __future__ import annotations

import math

import pytest
import torch
from branches import residual_branches
from cases import batch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from initbench.architectures.create import create_model
from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.errors import ArgumentError

NETWORKS = [("resnet", 14), ("wrn", 16)]


def build(name, depth, scheme, **arguments):
    return create_model(name, depth=depth, width=1, norm="none", scheme=scheme, input_shape=(3, 8, 8), **arguments)


def count(model, kind):
    return sum(isinstance(module, kind) for module in model.modules())


@pytest.mark.parametrize(("name", "depth"), NETWORKS)
def test_fixup_has_a_bias_before_each_layer_and_activation_and_a_multiplier_per_branch(name, depth):
    """Rule 3; but for the first convolution, as in the authors' code. The activation after an addition has its own."""
    model = build(name, depth, "fixup")
    blocks = residual_branches(model)
    assert len(blocks) == 6
    assert count(model, ScalarMultiplier) == len(blocks)
    # Per block 2 convolutions and 2 activations; outside the last activation of wrn, or the first of resnet, and the
    # classifier.
    assert count(model, ScalarBias) == 4 * len(blocks) + 2
    assert all(m.scale.item() == 1 for m in model.modules() if isinstance(m, ScalarMultiplier))
    assert not any(m.bias is not None for m in model.modules() if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize(("name", "depth"), NETWORKS)
def test_skipinit_has_a_gate_of_zero_per_branch_and_biases(name, depth):
    model = build(name, depth, "skipinit")
    gates = [m.scale.item() for m in model.modules() if isinstance(m, ScalarMultiplier)]
    assert gates == [0.0] * len(residual_branches(model))
    assert all(m.bias is not None for m in model.modules() if isinstance(m, nn.Conv2d))
    assert not count(model, ScalarBias)


@pytest.mark.parametrize(("name", "depth"), [*NETWORKS, ("plain", 16)])
def test_weight_norm_is_on_every_convolution(name, depth):
    model = build(name, depth, "weight_norm")
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) >= 13
    assert all(is_parametrized(m, "weight") and m.bias is not None for m in convolutions)
    assert not is_parametrized(model.classifier)
    assert not count(model, ScalarMultiplier)


@pytest.mark.parametrize(("name", "depth"), NETWORKS)
def test_every_part_takes_part(name, depth):
    """No parameter of any scheme is left out of the forward pass."""
    for scheme in ("standard", "fixup", "skipinit", "weight_norm"):
        model = build(name, depth, scheme).double()
        generator = torch.Generator().manual_seed(0)
        for parameter in model.parameters():
            nn.init.normal_(parameter, 0.0, 0.1, generator=generator)
        model(batch((4, 3, 8, 8))[0]).square().sum().backward()
        unused = [n for n, p in model.named_parameters() if p.grad is None or not 0 < p.grad.abs().max() < math.inf]
        assert unused == [], scheme


@pytest.mark.parametrize(
    ("name", "layers"), [("resnet", ["layers.0.convolution", "layers.1.convolution"]), ("wrn", ["conv1", "conv2"])]
)
def test_the_layers_of_a_branch_are_in_the_order_in_which_they_run(name, layers):
    model = build(name, dict(NETWORKS)[name], "standard")
    branch = residual_branches(model)[1]
    ran = []
    for label, module in model.get_submodule(branch.block).named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda *_, label=label: ran.append(label))
    model(torch.zeros(2, 3, 8, 8))
    assert ran == layers
    assert [f"{branch.block}.{label}" for label in ran] == [*branch.inner, *branch.ends]


def test_a_plain_network_has_no_branches():
    assert residual_branches(create_model("plain", depth=16, width=1)) == []
    for scheme in ("fixup", "skipinit"):
        with pytest.raises(ArgumentError, match=f"^{scheme}: no residual branches are found in WideResNet$"):
            create_model("plain", depth=10, width=1, norm="none", scheme=scheme)


@pytest.mark.parametrize("scheme", ["fixup", "skipinit", "weight_norm"])
def test_a_scheme_stands_in_the_place_of_a_norm(scheme):
    with pytest.raises(ArgumentError, match=f"^norm must be none for scheme {scheme}, got batch$"):
        create_model("wrn", depth=10, width=1, scheme=scheme)
