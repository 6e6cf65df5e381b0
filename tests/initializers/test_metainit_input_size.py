"""MetaInit on random inputs of another size than the images that the network is trained on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench import create_model
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.initialize import initialize

STEPS = {"steps": 4, "batch_size": 8}


def network():
    return create_model("plain", depth=10, width=1, norm="none", input_shape=(3, 24, 24), num_classes=10)


def tuned(model, side, **arguments):
    record = initialize(model, "metainit", input_shape=(8, 3, side, side), num_classes=10, **STEPS | arguments)
    return [p.detach() for p in model.parameters()], record


def test_it_is_as_if_the_network_were_for_images_of_that_size():
    """Plain networks end in a mean over pixels: the parameters do not depend on the size, nor does the base's draw."""
    small, first = tuned(network(), 8)
    asked, second = tuned(network(), 24, input_size=8)
    other, third = tuned(network(), 24)
    assert first.history == second.history
    assert all(map(torch.equal, small, asked))
    assert not all(map(torch.equal, small, other))
    assert second.conditions["batch_shape"] == [8, 3, 8, 8]
    assert third.conditions["batch_shape"] == [8, 3, 24, 24]


def test_a_network_that_cannot_take_the_size_is_refused_and_left_as_it_was():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InitializationError) as caught:
        tuned(model, 8, input_size=12, base=None)
    assert str(caught.value).startswith(
        "metainit: the network does not take inputs of 3×12×12, which input_size asks for: "
    )
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"input_size": 0}, "must be at least 1, got 0"), ({"input_size": 8, "data": "real"}, "is for random data")],
)  # fmt: skip
def test_bad_arguments(arguments, problem):
    with pytest.raises(ArgumentError, match=problem):
        tuned(network(), 24, **arguments)


def test_it_is_for_random_images_alone():
    batches = [(torch.randn(4, 3, 24, 24), torch.zeros(4, dtype=torch.int64))] * 4
    with pytest.raises(InitializationError, match="input_size is for random data, but batches are given"):
        tuned(network(), 24, input_size=8, batches=batches)
    vectors = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    with pytest.raises(InitializationError, match="input_size is for images, but the inputs are 6"):
        initialize(vectors, "metainit", input_shape=(4, 6), num_classes=3, input_size=8, base=None, **STEPS)
