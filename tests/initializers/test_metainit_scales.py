"""MetaInit as GradInit's authors run it: scales of all parameters, by Adam with clipped derivatives and a floor."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from cases import batch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize

BATCHES = [batch((4, 3, 4, 4), seed=2000 + index) for index in range(40)]
AUTHORS = {"optimizer": "adam", "parametrization": "scale", "clip": 1.0}


def conv_net(bias=0.3):
    """Two layers; the biases of the first are not zero, those of the second are, as after most initializations."""
    model = nn.Sequential(
        *[nn.Conv2d(3, 4, 3, padding=1), nn.SiLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 10)]
    ).double()
    initialize(model, "kaiming")
    generator = torch.Generator().manual_seed(3)
    nn.init.normal_(model[0].bias, 0, bias, generator=generator)
    nn.init.normal_(model[2].weight, 1, 0.2, generator=generator)
    return model.eval()


def quotient(model, values, inputs, targets, eps):
    loss = cross_entropy(functional_call(model, values, (inputs,)), targets)
    g = torch.autograd.grad(loss, list(values.values()), create_graph=True)
    hg = torch.autograd.grad(sum(x.square().sum() / 2 for x in g), list(values.values()), create_graph=True)
    total = sum(
        ((a - b) / (a + eps * (2 * (a >= 0).to(a.dtype) - 1).detach()) - 1).abs().sum()
        for a, b in zip(g, hg, strict=True)
    )
    return total / sum(v.numel() for v in values.values())


def rescale_adam(model, batches, lr, clip, floor, eps):
    """The update of `RescaleAdam` in zhuchen03/gradinit@777c407, parameter by parameter.

    dα = ⟨∇W, W⟩ ‖W0‖ / ‖W‖, clipped; Adam on α from 1; α at least the floor for names with ``weight``, 0 for ``bias``;
    W ← α W0; a parameter of norm 0 is passed over.
    """
    model = deepcopy(model)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    alpha = dict.fromkeys(start, 1.0)
    first, second = dict.fromkeys(start, 0.0), dict.fromkeys(start, 0.0)
    count = dict.fromkeys(start, 0)
    clipped = floored = 0
    for inputs, targets in batches:
        values = {name: (alpha[name] * w).requires_grad_() for name, w in start.items()}
        slopes = torch.autograd.grad(quotient(model, values, inputs, targets, eps), list(values.values()))
        for (name, w), slope in zip(values.items(), slopes, strict=True):
            norm = w.norm().item()
            if norm == 0:
                continue
            derivative = (slope * w).sum().item() * start[name].norm().item() / norm
            clipped += abs(derivative) > clip
            derivative = max(-clip, min(clip, derivative))
            count[name] += 1
            first[name] = 0.9 * first[name] + 0.1 * derivative
            second[name] = 0.999 * second[name] + 0.001 * derivative**2
            step = first[name] / (1 - 0.9 ** count[name])
            root = math.sqrt(second[name] / (1 - 0.999 ** count[name])) + 1e-8
            least = floor if "weight" in name else 0.0
            moved = alpha[name] - lr * step / root
            floored += moved < least
            alpha[name] = max(moved, least)
    return {name: alpha[name] * w for name, w in start.items()}, clipped, floored


@pytest.mark.parametrize("lr", [0.01, 0.3])
def test_it_is_the_authors_update(lr):
    model = conv_net()
    expected, clipped, floored = rescale_adam(model, BATCHES, lr, 0.05, 0.01, 0.1)
    assert clipped > 0  # else the clip is not tested
    assert (floored > 0) == (lr == 0.3)  # nor the floor
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    arguments = AUTHORS | {"clip": 0.05, "lr": lr, "eps": 0.1, "steps": len(BATCHES), "batches": BATCHES}
    record = initialize(model, "metainit", base=None, **arguments)
    # As in the oracle of the listing: float64, and a rounding error that Adam lets grow.
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), expected[name], rtol=1e-7, atol=1e-10)
    zeros = {name for name, p in start.items() if not p.count_nonzero()}
    assert zeros == {"2.bias", "4.bias"}
    assert set(record.conditions["norms"]) == set(start) - zeros
    assert all(torch.equal(dict(model.named_parameters())[name], start[name]) for name in zeros)


def test_a_scale_never_changes_its_sign_and_ends_at_the_floor():
    model = conv_net(bias=3.0)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    record = initialize(model, "metainit", base=None, **AUTHORS, lr=5.0, steps=20, batches=BATCHES)
    assert set(record.conditions["sign_flips"].values()) == {0}
    scales = {
        name: p.detach().norm() / start[name].norm() for name, p in model.named_parameters() if start[name].norm()
    }
    assert all(scale >= (0.01 if "weight" in name else 0.0) - 1e-12 for name, scale in scales.items())
    assert any(abs(scale - 0.01) < 1e-12 for scale in scales.values())
    assert all((p.detach() * start[name]).min() >= 0 for name, p in model.named_parameters())


def test_a_weight_of_zeros_is_refused_or_kept_as_by_norms():
    model = conv_net()
    nn.init.zeros_(model[4].weight)
    with pytest.raises(InitializationError, match=r"4\.weight has norm 0"):
        initialize(deepcopy(model), "metainit", base=None, **AUTHORS, steps=1, batches=BATCHES)
    record = initialize(model, "metainit", base=None, **AUTHORS, zeros="keep", steps=1, batches=BATCHES)
    assert "4.weight" not in record.conditions["norms"]
