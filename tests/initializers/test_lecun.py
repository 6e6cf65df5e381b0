"""LeCun's variance, and the law of a normal distribution without tails."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import nn

from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize


def drawn(layer, name, **arguments):
    initialize(layer, name, **arguments)
    return layer.weight.detach().double()


@pytest.mark.parametrize(("shape", "law"), [("normal", stats.norm()), ("uniform", stats.uniform(-1, 2))])
@pytest.mark.parametrize(
    ("make", "fan_in"),
    [(lambda: nn.Linear(300, 200), 300), (lambda: nn.Conv2d(128, 256, 3, groups=4), 288)],
    ids=["linear", "grouped"],
)
def test_lecun_has_the_variance_of_one_over_fan_in(make, fan_in, shape, law):
    weight = drawn(make(), "lecun", distribution=shape).flatten()
    standardized = weight * math.sqrt(fan_in) * law.std()
    # A wrong fan (600, 72, ...) or law is rejected at once; 1e-3 is far below what the right one gives at this seed.
    assert stats.kstest(standardized.numpy(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("bound", [0.5, 1.0, 2.0, 3.0, 6.0])
def test_a_truncated_normal_has_its_deviation_its_bound_and_its_law(bound):
    weight = drawn(nn.Linear(400, 500), "truncated_normal", std=0.02, bound=bound).flatten()
    law = stats.truncnorm(-bound, bound)
    sigma = 0.02 / law.std()
    # Five standard errors of a standard deviation.
    error = math.sqrt((law.moment(4) / law.var() ** 2 - 1) / (4 * weight.numel()))
    assert weight.std().item() == pytest.approx(0.02, rel=5 * error)
    assert weight.abs().max().item() <= bound * sigma * (1 + 1e-6)
    assert stats.kstest((weight / sigma).numpy(), law.cdf).pvalue > 1e-3


def test_a_bound_beyond_every_draw_gives_the_normal_law():
    weight = drawn(nn.Linear(400, 500), "truncated_normal", std=0.1, bound=30.0)
    assert torch.isfinite(weight).all()
    assert stats.kstest(weight.flatten().numpy() / 0.1, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", ["std", "bound"])
def test_what_it_refuses(name):
    with pytest.raises(ArgumentError) as caught:
        initialize(nn.Linear(3, 3), "truncated_normal", **{name: 0.0})
    assert caught.value.argument == name
