"""Channels of mean 0 and variance 1, by the equations of the paper."""

from __future__ import annotations

import math

import pytest
import torch
from cases import batch
from recorded import set_to
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from initbench.architectures.create import create_model
from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize
from initbench.initializers.weight_norm import is_weight_normalized


def network(name="wrn", depth=16):
    return create_model(name, depth=depth, width=1, norm="none", scheme="weight_norm", input_shape=(3, 8, 8)).double()


@pytest.mark.parametrize(("name", "depth"), [("wrn", 16), ("plain", 16), ("resnet", 14)])
def test_every_channel_has_mean_0_and_variance_1(name, depth):
    inputs, targets = batch((16, 3, 8, 8))
    model = network(name, depth)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(parameter.numel()))
    classifier = [p.detach().clone() for p in model.classifier.parameters()]
    record = initialize(model, "data_dependent_weight_norm", base=None, batches=[(inputs, targets)])
    assert record.cost == {"forward": 1, "backward": 0}
    seen = []
    for module in model.modules():
        if is_weight_normalized(module):
            module.register_forward_hook(lambda _, __, out: seen.append(out))
    with torch.no_grad():
        model(inputs)
    assert len(seen) >= 13
    for outputs in seen:
        assert outputs.mean((0, 2, 3)).abs().max() < 1e-12
        assert (outputs.var((0, 2, 3), correction=0) - 1).abs().max() < 1e-10
    assert all(torch.equal(a, b) for a, b in zip(model.classifier.parameters(), classifier, strict=True))


def test_the_equations_by_hand():
    """v = (3, 4) / 5 of inputs (1, 0), (0, 1): t = .6 and .8, so that μ = .7, σ = .1, g = 10 and b = -7."""
    model = nn.Sequential(weight_norm(nn.Linear(2, 1))).double()
    with torch.no_grad():
        model[0].parametrizations.weight.original1.copy_(torch.tensor([[3.0, 4.0]]))
    record = initialize(
        model, "data_dependent_weight_norm", base=None, batches=[(torch.eye(2).double(), torch.zeros(2))]
    )
    assert model[0].parametrizations.weight.original0.item() == pytest.approx(10.0, rel=1e-12)
    assert model[0].bias.item() == pytest.approx(-7.0, rel=1e-12)
    assert record.tensors["0.bias"] == [set_to("standardizing_shifts")]


def test_frozen_and_missing_biases():
    inputs, targets = batch((32, 5))
    model = nn.Sequential(weight_norm(nn.Linear(5, 4, bias=False)), nn.ReLU(), weight_norm(nn.Linear(4, 3))).double()
    model[2].bias.requires_grad_(requires_grad=False)
    frozen = model[2].bias.clone()
    initialize(model, "data_dependent_weight_norm", base=None, batches=[(inputs, targets)])
    hidden = model[0](inputs)
    torch.testing.assert_close(hidden.std(0, correction=0), torch.ones(4).double())
    torch.testing.assert_close(model[2](hidden.relu()).std(0, correction=0), torch.ones(3).double())
    assert torch.equal(model[2].bias, frozen)


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(5, 3)), batch((4, 5))[0], "no weight-normalized layers"),
        (lambda: nn.Sequential(weight_norm(nn.Linear(5, 3))), torch.ones(4, 5), "0: the outputs of a channel are"),
        (lambda: nn.Sequential(weight_norm(nn.Linear(5, 3))), batch((4, 5))[0] * math.nan, "not finite"),
    ],
)
def test_what_it_refuses_is_left_as_it_was(make, inputs, message):
    model = make().double()
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(InitializationError, match=message):
        initialize(
            model, "data_dependent_weight_norm", base=None, batches=[(inputs.double(), torch.zeros(len(inputs)))]
        )
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))
