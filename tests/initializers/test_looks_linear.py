"""A looks-linear network is a linear function, exactly."""

from __future__ import annotations

import pytest
import torch
from cases import batch
from torch import nn

from initbench.errors import InitializationError
from initbench.initializers.initialize import initialize


def mlp(depth, width=16, inputs=12, outputs=4):
    layers = [nn.Linear(inputs, width)]
    for _ in range(depth - 2):
        layers += [nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Linear(width, outputs)).double()


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 12, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 10),
    ).double()


@pytest.mark.parametrize(
    ("make", "shape"), [(lambda: mlp(50), (6, 12)), (conv_net, (6, 3, 8, 8))], ids=["50 layers", "convolutions"]
)
def test_the_network_is_linear(make, shape):
    model = make()
    initialize(model, "looks_linear")
    x, y = batch(shape)[0], batch(shape, seed=1)[0]
    with torch.no_grad():
        expected = 2 * model(x) - 3 * model(y)
        # 1e-13: 50 layers of roundings of float64, measured as 1e-14; a ReLU network is off by about its own size, 10.
        assert torch.allclose(model(2 * x - 3 * y), expected, rtol=0, atol=1e-13)
        assert expected.abs().max() > 1e-3


def test_between_the_first_and_the_last_layer_norms_are_kept():
    """The widths are equal, so W is square and orthogonal: the halves have the norm of the input, each."""
    model = mlp(50, width=24, inputs=12)
    initialize(model, "looks_linear")
    x = batch((6, 12))[0]
    hidden = model[:-2](x)
    assert torch.allclose(hidden[:, :12], -hidden[:, 12:], rtol=0, atol=1e-13)
    assert torch.allclose(hidden[:, :12].norm(dim=1), x.norm(dim=1), rtol=1e-12)


def test_gain_multiplies_each_weight():
    one, two = mlp(3), mlp(3)
    initialize(one, "looks_linear")
    initialize(two, "looks_linear", gain=2.0)
    x = batch((6, 12))[0]
    assert torch.allclose(two(x), 8 * one(x), rtol=1e-12)


def test_odd_widths_are_named():
    with pytest.raises(InitializationError, match=r"looks_linear: 2\.weight: 15 inputs have no two halves"):
        initialize(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(15, 4)), "looks_linear")
    with pytest.raises(InitializationError, match=r"looks_linear: 0\.weight: 15 outputs have no two halves"):
        initialize(nn.Sequential(nn.Linear(4, 15), nn.ReLU(), nn.Linear(15, 4)), "looks_linear")


def test_one_weight_has_nothing_to_mirror():
    with pytest.raises(InitializationError, match="needs at least two weights"):
        initialize(nn.Linear(4, 4), "looks_linear")


def test_norm_layers_are_reset_and_named():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))
    nn.init.constant_(model[1].weight, 3.0)
    record = initialize(model, "looks_linear")
    assert record.conditions["norm_layers"] == ["1"]
    assert model[1].weight.eq(1).all()


def test_a_weight_of_groups_is_refused():
    """A group sees one half of the inputs alone."""
    model = nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3, groups=2))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with pytest.raises(InitializationError, match=r"looks_linear: 2\.weight: a weight of 2 groups does not join both"):
        initialize(model, "looks_linear")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


def test_the_record_names_the_ends_and_what_is_not_mirrored():
    model = conv_net()
    model[2].weight.requires_grad_(requires_grad=False)
    record = initialize(model, "looks_linear")
    assert record.conditions == {"first": "0.weight", "last": "8.weight", "frozen": ["2.weight"], "norm_layers": []}
