"""Initialization of weight-normalized networks: energies that neither vanish nor explode."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from branches import residual_branches
from cases import batch
from recorded import drawn
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.architectures.create import create_model
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize


def gains(module):
    return module.parametrizations.weight.original0.flatten()


def chain(widths):
    layers = [weight_norm(nn.Linear(a, b)) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*(m for layer in layers for m in (layer, nn.ReLU()))).double()


def test_the_gains_by_hand():
    for name, value in (("forward", math.sqrt(2 * 12 / 8)), ("backward", math.sqrt(2))):
        model = chain([12, 8, 8])
        initialize(model, "weight_norm", gain=name)
        assert gains(model[0]).tolist() == pytest.approx([value] * 8, rel=1e-12)
        assert gains(model[2]).tolist() == pytest.approx([math.sqrt(2)] * 8, rel=1e-12)
        assert model[0].weight.norm(dim=1).tolist() == pytest.approx([value] * 8, rel=1e-12)
        assert model[0].bias.eq(0).all()


def test_channels_are_counted_and_not_taps():
    model = nn.Sequential(weight_norm(nn.Conv2d(6, 4, 3, groups=2)))
    initialize(model, "weight_norm")
    assert gains(model[0]).tolist() == pytest.approx([math.sqrt(2 * 3 / 2)] * 4)


def test_orthogonal_directions_and_pytorchs_gain():
    model = chain([12, 8])
    initialize(model, "weight_norm", gain="pytorch")
    assert torch.allclose(model[0].weight @ model[0].weight.T, torch.eye(8).double(), atol=1e-12)
    model = chain([300, 200])
    initialize(model, "weight_norm", gain="pytorch", direction="normal")
    v = model[0].parametrizations.weight.original1
    assert torch.allclose(gains(model[0]), v.norm(dim=1))
    assert v.std().item() == pytest.approx(1 / math.sqrt(300), rel=0.02)


def energies(layers, widths, gain, scale=None, seed=0):
    """‖h‖² and ‖∂/∂x‖² after ReLU layers of alternating width, over what went in."""
    model = chain(list(itertools.islice(itertools.cycle(widths), layers + 1)))
    initialize(model, "weight_norm", gain=gain, seed=seed)
    if scale is not None:
        for layer in model[::2]:
            nn.init.constant_(layer.parametrizations.weight.original0, scale)
    x = batch((32, widths[0]), seed=seed)[0].requires_grad_()
    output = model(x)
    cotangent = batch(output.shape, seed=seed + 1)[0]
    (gradient,) = torch.autograd.grad(output, x, cotangent)
    return (
        (output.square().sum() / x.square().sum()).item(),
        (gradient.square().sum() / cotangent.square().sum()).item(),
    )


@pytest.mark.parametrize(("gain", "expected"), [("forward", (1.0, 100 / 60)), ("backward", (60 / 100, 1.0))])
def test_what_each_gain_keeps_in_the_mean_over_draws(gain, expected):
    """E‖h‖² = ‖x‖² (Theorem 1) or E‖∂/∂x‖² = ‖∂/∂h‖² (Theorem 2), and the other changes by the ratio of the widths."""
    ratios = torch.tensor([energies(5, (100, 60), gain, seed=seed) for seed in range(40)])
    error = ratios.std(0) / math.sqrt(len(ratios))
    assert error.max() < 0.07  # so that four of them tell 1 from 60 / 100
    assert ((ratios.mean(0) - torch.tensor(expected)).abs() < 4 * error).all()


@pytest.mark.slow
def test_100_layers():
    """500 and 300 wide in turn: .53 and 1.29 in one draw of the authors' gains, against 1e-31 for gains of 1."""
    ratios = torch.tensor([energies(100, (500, 300), "forward", seed=seed) for seed in range(4)])
    # The logarithm of one draw has a deviation of 1.0 forward and .5 backward, over ten seeds; three errors of four.
    mean = ratios.log().mean(0).abs()
    assert mean[0] < 1.5
    assert mean[1] < 0.75
    # Over two layers the gains of both kinds have the same product, and a ReLU scales with its input.
    assert energies(100, (500, 300), "backward") == pytest.approx(ratios[0].tolist(), rel=1e-4)
    # Each ReLU halves the energy, and a gain of 1 makes nothing up for it.
    unit = energies(100, (500, 300), "forward", scale=1.0)
    assert unit == pytest.approx((ratios[0] * 2.0**-100).tolist(), rel=1e-4)


class Branch(nn.Module):
    """x + W2·ReLU(W1·x), as in section 3.2 of the paper."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = weight_norm(nn.Linear(width, width)), weight_norm(nn.Linear(width, width))

    def forward(self, x):
        return x + self.second(self.first(x).relu())


def growth(blocks, gain="forward"):
    model = nn.Sequential(*(Branch(64) for _ in range(blocks))).double()
    initialize(model, "weight_norm", gain=gain)
    x = batch((16, 64))[0]
    with torch.no_grad():
        return (model(x).square().sum() / x.square().sum()).item()


@pytest.mark.parametrize("blocks", [10, 100, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_stage_multiplies_the_energy_by_at_most_e(blocks):
    """(1 + 1/B)^B, Theorem 3; ± 30 % for a width of 64."""
    assert growth(blocks) == pytest.approx((1 + 1 / blocks) ** blocks, rel=0.3)


def test_hanins_gains_by_hand():
    """(0.9^b)² for the b-th block of a stage: the energy grows by Π(1 + 0.81^b)."""
    expected = math.prod(1 + 0.81**b for b in range(1, 31))
    assert growth(30, "hanin") == pytest.approx(expected, rel=0.3)
    model = create_model("wrn", depth=16, width=2, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm", gain="hanin")
    for group in model.groups:
        for number, block in enumerate(group, start=1):
            assert gains(block.conv2)[0].item() == pytest.approx(0.9**number)


def test_stem_shortcut_and_branches():
    model = create_model("wrn", depth=22, width=2, norm="none", scheme="weight_norm")
    initialize(model, "weight_norm")
    assert gains(model.stem)[0].item() == pytest.approx(math.sqrt(3 / 16))
    first = model.groups[0][0]
    assert gains(first.projection)[0].item() == pytest.approx(math.sqrt(16 / 32))
    assert gains(first.conv1)[0].item() == pytest.approx(math.sqrt(2 * 16 / 32))
    for branch in residual_branches(model):
        assert branch.ends == (f"{branch.block}.conv2",)
        end = model.get_submodule(branch.ends[0])
        assert gains(end)[0].item() == pytest.approx(math.sqrt(1 / 3))  # three blocks to a stage
    assert initialize(model, "weight_norm").tensors["classifier.weight"] == [drawn("orthogonal")]


def test_a_model_without_weight_normalization_is_refused():
    with pytest.raises(InitializationError, match="weight_norm: the model has no weight-normalized layers"):
        initialize(nn.Linear(3, 3), "weight_norm")
