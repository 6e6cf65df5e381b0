"""The multilayer perceptron."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench.architectures.create import create_model
from initbench.errors import ArgumentError


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
        ({"depth": 0}, "depth must be at least 1, got 0"),
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
