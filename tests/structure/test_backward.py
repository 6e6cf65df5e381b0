"""What no training can change: against networks whose gradients are known."""

from __future__ import annotations

import pytest
import torch
from cases import assert_same_state, state
from torch import nn

from initbench.errors import InitializationError
from initbench.structure.backward import gradients, locked_branch, locked_parameters
from initbench.structure.find import find_structure

X = torch.zeros(2, 4)


class Residual(nn.Module):
    """One residual branch, which ends in a layer of zeros, a gate and an activation; then a head of zeros."""

    def __init__(self, activation: nn.Module, gate: float = 1.0, token: float = 1.0):
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.inner, self.last, self.head = (nn.Linear(4, 4) for _ in range(4))
        self.gate, self.token = nn.Parameter(torch.tensor(gate)), nn.Parameter(torch.tensor(token))
        self.activation = activation
        for layer in (self.last, self.head):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x):
        x = self.stem(x) * self.token
        return self.head(x + self.activation(self.last(self.inner(x).tanh()) * self.gate))


def locked(model):
    return locked_branch(model, X, find_structure(model, X))


def test_a_branch_with_one_factor_of_0_is_closed_and_not_locked():
    """Its last layer has no gradient as long as the head is 0, and has one as soon as the head has moved."""
    model = Residual(nn.Identity())
    by_name = dict(zip(("head", "last"), gradients(model, X, [model.head.weight, model.last.weight]), strict=True))
    assert by_name["head"].any()
    assert not by_name["last"].any()
    assert locked(model) == []


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Residual(nn.ReLU()), ["last.weight"]),  # PyTorch's slope of ReLU at 0 is 0
        (lambda: Residual(nn.Identity(), gate=0.0), ["last.weight", "gate"]),
        (lambda: Residual(nn.Identity(), token=0.0), ["head.weight"]),  # the stream is 0, as from a class token of 0
    ],
)
def test_two_factors_of_0_and_a_flat_activation_lock(make, names):
    assert locked(make())[: len(names)] == names


def test_the_model_is_left_as_it_was():
    model = Residual(nn.Identity()).train()
    model.inner.weight.grad = torch.ones(4, 4)
    before = state(model)
    random_state = torch.get_rng_state()
    locked(model)
    assert_same_state(before, state(model))
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.equal(model.inner.weight.grad, torch.ones(4, 4))
    assert model.training


def test_frozen_parameters_and_others_than_zeros_are_not_locked():
    model = Residual(nn.ReLU())
    model.last.weight.requires_grad_(requires_grad=False)
    assert locked_parameters(model, X, ["last.weight", "inner.weight"]) == set()


def test_tokens_of_zeros_are_varied():
    """The padding row is 0, so that a text of padding alone would show no gradient."""
    words = nn.Sequential(nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 3, bias=False))
    nn.init.zeros_(words[1].weight)
    assert locked_parameters(words, torch.zeros(2, 3, dtype=torch.int64), ["1.weight"]) == set()


def test_a_model_that_fails_backward_is_refused_in_one_line():
    class WritesIntoWhatIsNeeded(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = self.layer(x).sigmoid()
            return y * y.mul_(2)

    model = WritesIntoWhatIsNeeded()
    with pytest.raises(
        InitializationError, match=r"^the backward pass of WritesIntoWhatIsNeeded fails: .*inplace"
    ) as e:
        gradients(model, X, list(model.parameters()))
    assert "\n" not in str(e.value)
