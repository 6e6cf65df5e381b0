"""MetaInit recovers bad starts: Dauphin & Schoenholz, 2019, section 4.1 and Table 1."""

from __future__ import annotations

import itertools
import math

import pytest
from cases import small
from torch import nn

from initbench.initializers.initialize import initialize


@pytest.mark.slow
def test_a_vanished_plain_net_is_recovered():
    """DeltaOrthogonal on the plain net with β-Swish has GQ 1; the paper's Table 1 has .54 after tuning."""
    model = small("plain", depth=16, activation="beta_swish")
    record = initialize(model, "metainit", steps=100, input_shape=(32, 3, 8, 8), num_classes=10)
    assert record.history[0]["gradient_quotient"] > 0.95
    assert record.history[-1]["gradient_quotient"] < 0.5


def linear_net(widths):
    """A deep linear net without biases."""
    pairs = itertools.pairwise(widths)
    return nn.Sequential(nn.Flatten(), *[nn.Linear(a, b, bias=False) for a, b in pairs])


def log_norm_error(model):
    """Mean |log(norm / norm of Xavier)|; Xavier's norm is √(2 · in · out / (in + out))."""
    shapes = [(p.norm().item(), *p.shape) for p in model.parameters()]
    errors = [abs(math.log(norm / math.sqrt(2 * a * b / (a + b)))) for norm, a, b in shapes]
    return sum(errors) / len(errors)


def recover(widths, std, *, samples, steps):
    """A net tuned from N(0, std²) as in section 4.1 of the paper (μ = .5), its error before, and its last GQ."""
    model = linear_net(widths)
    initialize(model, "gaussian", std=std)
    before = log_norm_error(model)
    record = initialize(
        model, "metainit", base=None, steps=steps, momentum=0.5, input_shape=(samples, widths[0]), num_classes=10
    )
    return model, before, record.history[-1]["gradient_quotient"]


@pytest.mark.slow
def test_a_linear_net_of_12_layers_is_recovered_from_both_sides():
    """Starts that are ten times apart end near the same norms, near Xavier's; 28 layers come nearer (below)."""
    nets = []
    for std in (0.05, 0.5):
        model, before, gq = recover([16] * 12 + [10], std, samples=64, steps=300)
        nets.append([math.log(p.norm().item()) for p in model.parameters()])
        assert before > 0.6
        assert log_norm_error(model) < 0.5
        assert gq < 0.3
    # Steps of .1 about norms of 2.5 leave differences of some tenths; the starts differ by log 10 = 2.3.
    assert sum(abs(a - b) for a, b in zip(*nets, strict=True)) / 12 < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("std", [0.02, 0.05, 0.3])
def test_a_linear_net_of_28_layers_is_recovered(std):
    """Section 4.1 of the paper: 28 linear layers, widths that grow as the groups of a WRN, 1000 steps."""
    widths = [48] + [32] * 10 + [48] * 9 + [64] * 8 + [10]
    model, before, gq = recover(widths, std, samples=128, steps=1000)
    assert before > 0.6
    assert log_norm_error(model) < 0.3
    assert gq < 0.6
