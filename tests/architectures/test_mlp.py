"""The multilayer perceptron."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError
from initbench.initializers.initialize import initialize
from initbench.registry import ARCHITECTURES
from initbench.suite.document import Document
from initbench.suite.part import cross


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_it_is_a_chain_of_linear_layers_on_the_flattened_input(depth):
    model = create_model("mlp", depth=depth, width=6, activation="tanh", input_shape=(2, 3, 4), num_classes=5).double()
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == list(
        zip([24] + [6] * (depth - 1), [6] * (depth - 1) + [5], strict=True)
    )
    x = torch.randn(7, 2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = x.reshape(7, 24)
    for layer in linear[:-1]:
        y = torch.tanh(y @ layer.weight.T + layer.bias)
    torch.testing.assert_close(model(x), y @ linear[-1].weight.T + linear[-1].bias, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("norm", "layer"), [("batch", "BatchNorm1d"), ("group", "GroupNorm")])
def test_a_norm_stands_before_the_activation_and_takes_the_place_of_the_biases(norm, layer):
    model = create_model("mlp", depth=3, width=16, norm=norm, input_shape=(1, 4, 4))
    assert [type(m).__name__ for m in model] == [
        "Flatten",
        *["Linear", layer, "ReLU", "Identity"] * 2,
        "Linear",
    ]
    assert [m.bias is None for m in model if isinstance(m, nn.Linear)] == [True, True, False]


def test_layers_have_the_same_names_with_and_without_norm():
    names = [
        {n for n, p in create_model("mlp", depth=4, norm=norm).named_parameters() if p.dim() == 2}
        for norm in ("none", "batch", "group")
    ]
    assert (
        names[0] == names[1] == names[2] == {"linear1.weight", "linear2.weight", "linear3.weight", "classifier.weight"}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": 0}, "depth must be at least 1 and at most 100000, got 0"),
        ({"depth": 100_001}, "depth must be at least 1 and at most 100000, got 100001"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"width": 24, "norm": "group"}, "width must be a multiple of 16 for norm group, got 24"),
        ({"dropout": 1.5}, "dropout must be at least 0 and less than 1, got 1.5"),
    ],
)
def test_impossible_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("mlp", **arguments)
    assert str(refusal.value) == message
    assert refusal.value.argument == next(iter(arguments))


def test_widths_are_those_of_the_hidden_layers_in_order():
    model = create_model("mlp", widths=[7, 3, 5], norm="batch", input_shape=(1, 2, 4), num_classes=6)
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(8, 7), (7, 3), (3, 5), (5, 6)]
    assert [m.num_features for m in model.modules() if isinstance(m, nn.BatchNorm1d)] == [7, 3, 5]


def test_equal_widths_are_a_depth_and_a_width():
    one, other = (
        create_model("mlp", input_shape=(1, 2, 4), **arguments)
        for arguments in ({"depth": 4, "width": 6}, {"widths": [6, 6, 6]})
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert list(one.state_dict()) == list(other.state_dict())


def test_without_biases_there_are_weights_alone():
    model = create_model("mlp", widths=[32, 64], bias=False, activation="linear", input_shape=(1, 4, 4))
    assert [tuple(p.shape) for p in model.parameters()] == [(32, 16), (64, 32), (10, 64)]
    x = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert not model(torch.zeros(3, 1, 4, 4)).any()
    a, b, c = model.parameters()
    torch.testing.assert_close(model(x), x.flatten(1) @ a.T @ b.T @ c.T)


def test_weight_norm_on_widths_keeps_the_energy_of_alternating_layers():
    """Arpit et al., 2019: with g = √(2 · inputs / outputs) activations keep their norm, 50 times 500 and 300 wide."""
    model = create_model("mlp", widths=[500, 300] * 50, scheme="weight_norm", input_shape=(1, 15, 20))
    initialize(model, "weight_norm", input_shape=(2, 1, 15, 20))
    x = torch.randn(32, 1, 15, 20, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = model[:-1](x)
    ratio = (hidden.square().sum() / x.square().sum()).item()
    # 0.53 by the same law elsewhere; with g = 1 it is 2^-100.
    assert 0.1 < ratio < 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"widths": [8, 0]}, "widths must each be at least 1, got 8, 0"),
        ({"widths": [8], "depth": 2}, "depth must be left out if widths is given, got 2"),
        ({"widths": [8], "width": 8}, "width must be left out if widths is given, got 8"),
        ({"widths": [16, 24], "norm": "group"}, "widths must be a multiple of 16 for norm group, got 24"),
    ],
)
def test_impossible_widths_are_refused(arguments, message):
    with pytest.raises(ArgumentError) as refusal:
        create_model("mlp", **arguments)
    assert str(refusal.value) == message


def test_a_list_of_widths_is_one_value_in_a_suite_and_a_list_of_lists_is_crossed():
    mlp = ARCHITECTURES.get("mlp")
    assert mlp.takes_a_list("widths")
    assert mlp.resolve({"widths": [500, 300]})["widths"] == (500, 300)
    document = Document("suite.yaml", "", {})
    values = [[500, 300], [300, 500, 300]]
    arguments = {"widths": values, "norm": ["none", "batch"]}
    crossed = cross(document, arguments, ("architectures", 0), mlp.takes_a_list)
    assert [(arguments["widths"], arguments["norm"]) for arguments, _ in crossed] == [
        (widths, norm) for widths in values for norm in ("none", "batch")
    ]
