"""Which factor of a product is a gate, and what a side of an addition must not have to be a shortcut."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from initbench import find_structure

X = torch.ones(2, 4)


def rows(number):
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(number)))


class Product(nn.Module):
    """x + last(first(x) · function(other(x))), with any number of layers in both factors."""

    def __init__(self, first, other, function):
        super().__init__()
        self.first, self.other, self.last = rows(first), rows(other), nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        return x + self.last(self.first(x) * self.function(self.other(x)))


def inner(model, x=X):
    [branch] = find_structure(model, x).branches
    assert branch.ends == ("last",)
    return list(branch.inner), branch.depth


@pytest.mark.parametrize(
    "gate",
    [
        torch.sigmoid,
        nn.Hardsigmoid(),
        lambda x: (x + 3).clamp(0, 6) / 6,  # as timm writes the hard sigmoid
        lambda x: 2 * x.tanh().unsqueeze(0).squeeze(0),
        lambda x: x.sigmoid().expand_as(x),
        lambda x: x.softmax(-1).topk(4).values / x.sum(),
    ],
)
def test_a_gate_is_a_bounded_factor_of_another_depth(gate):
    """Deeper as in squeeze and excitation, or less deep as the weights of experts."""
    assert inner(Product(1, 2, gate)) == (["first.0"], 2)
    assert inner(Product(2, 1, gate)) == (["first.0", "first.1"], 3)
    assert inner(Product(1, 1, gate)) == (["first.0", "other.0"], 2)  # a gated linear unit


@pytest.mark.parametrize("function", [nn.SiLU(), nn.GELU(), lambda x: x, lambda x: x.sigmoid() * x])
def test_another_factor_is_a_signal_whatever_its_depth(function):
    assert inner(Product(1, 2, function)) == (["first.0", "other.0", "other.1"], 3)


class Experts(nn.Module):
    """Samples are put in the order that a router chooses, and back: its choice is no signal."""

    def __init__(self):
        super().__init__()
        self.router, self.last = nn.Linear(4, 2), nn.Linear(4, 4)
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        order = self.router(x).argmax(-1).argsort()
        given = self.last(self.first(x[order]).relu())
        result = torch.zeros_like(x)
        result.index_add_(0, order, given)
        return x + result


def test_what_chooses_is_no_signal():
    found = find_structure(Experts(), X)
    assert [(branch.inner, branch.ends, branch.depth) for branch in found.branches] == [(("first",), ("last",), 2)]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(self, x):
        return (x + self.branch(x)).relu()


class Streams(nn.Module):
    """Two streams of blocks, one of which is added to the other behind a layer, as in HRNet."""

    def __init__(self):
        super().__init__()
        self.streams = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Block(), Block()) for _ in range(2))
        self.fuse = nn.Linear(4, 4)

    def forward(self, x):
        first, second = (stream(x) for stream in self.streams)
        return first + self.fuse(second)


def test_streams_that_are_added_are_no_residual_branch():
    """A layer is a projection, and a layer with blocks behind it is a network."""
    blocks = [branch.block for branch in find_structure(Streams(), X).branches]
    assert blocks == [f"streams.{stream}.{block}" for stream in (0, 1) for block in (2, 3)]


class Parallel(nn.Module):
    """Adds branches of one input one after another, with a norm in the identity's place, as RepVGG's blocks do."""

    def __init__(self):
        super().__init__()
        self.identity, self.first, self.second = nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.identity(x) + self.first(x) + self.second(x)


def test_branches_beside_each_other():
    assert [branch.ends for branch in find_structure(Parallel(), X).branches] == [("first",), ("second",)]


class AroundParallel(Parallel):
    """A branch of parallel arms, from which a norm of the input is subtracted, as in FastViT's RepMixer."""

    def __init__(self):
        super().__init__()
        self.gamma, self.norm = nn.Parameter(torch.ones(4)), nn.LayerNorm(4)

    def forward(self, x):
        return x + self.gamma * (super().forward(x) - self.norm(x))


def test_arms_within_a_branch_are_its_ends():
    [branch] = find_structure(AroundParallel(), X).branches
    assert (branch.ends, branch.gates) == (("first", "second"), ("gamma",))


class Modulated(nn.Module):
    """Adds what two factors multiply, as FocalNet does with its contexts: neither side is the identity."""

    def __init__(self):
        super().__init__()
        self.gates, self.first, self.second = nn.Linear(4, 8), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        a, b = self.gates(x).chunk(2, -1)
        context = self.first(x)
        return context * a + self.second(context) * b


def test_a_modulated_sum_is_no_residual_branch():
    assert find_structure(Modulated(), X).branches == ()
