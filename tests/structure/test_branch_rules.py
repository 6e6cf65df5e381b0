"""What counts as a branch, a gate, a head, an attention or a layer, on modules made for the question."""

from __future__ import annotations

import operator
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from initbench import Attention, InitializationError, create_model, find_structure

X = torch.ones(1, 4)


class Sum(nn.Module):
    """Adds the outputs of its parts, where None is the identity."""

    def __init__(self, *parts, add=operator.add):
        super().__init__()
        self.parts = nn.ModuleList(part or nn.Identity() for part in parts)
        self.add = add

    def forward(self, x):
        first, *others = (part(x) for part in self.parts)
        for other in others:
            first = self.add(first.clone(), other)  # what is added in place must not be the input itself
        return first


def layers(number, activation=None):
    parts = [[nn.Linear(4, 4), *([activation()] if activation else [])] for _ in range(number)]
    return nn.Sequential(*(part for pair in parts for part in pair))


def ends(model, x=X):
    return [end for branch in find_structure(model, x).branches for end in branch.ends]


@pytest.mark.parametrize("add", [operator.add, operator.iadd, torch.add, lambda a, b: a.add(b), lambda a, b: a.add_(b)])
def test_every_way_to_add(add):
    assert ends(Sum(None, layers(2), add=add)) == ["parts.1.1"]
    assert ends(Sum(layers(2), None, add=add)) == ["parts.0.1"]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((1, 2), ["parts.1.1"]),  # a projection stands in the place of the identity
        ((2, 3), []),  # two deep ways are no shortcut
        ((1, 1), []),
        ((0, 1), ["parts.1.0"]),
        ((0, 0), []),
        ((0, 2, 2), ["parts.1.1", "parts.2.1"]),  # two branches from one tensor, as in a parallel block
        ((2, 4), ["parts.1.3"]),  # a projection of two layers, as in GhostNet
    ],
)
def test_which_side_is_the_branch(parts, expected):
    assert ends(Sum(*(layers(number) if number else None for number in parts))) == expected


def test_a_deeper_shortcut_is_linear():
    assert ends(Sum(layers(2, nn.ReLU), layers(4, nn.ReLU))) == []
    found = find_structure(Sum(nn.Sequential(layers(1), nn.LayerNorm(4), layers(1)), layers(4, nn.ReLU)), X)
    [branch] = found.branches
    assert branch.shortcut == ("parts.0.0.0", "parts.0.2.0")
    assert branch.ends == ("parts.1.6",)


class Zoom(nn.Module):
    """A gate per channel by a name of its own, behind or before what it is given."""

    def __init__(self, module, behind):
        super().__init__()
        self.module, self.behind = module, behind
        self.zoom = nn.Parameter(torch.ones(4, 1))

    def forward(self, x):
        zoom = self.zoom.view(4)
        return torch.multiply(self.module(x), zoom) if self.behind else self.module(zoom * x)


def test_a_gate_is_what_multiplies_behind_the_last_layer():
    assert find_structure(Sum(None, Zoom(layers(2), True)), X).branches[0].gates == ("parts.1.zoom",)
    assert find_structure(Sum(None, Zoom(layers(2), False)), X).branches[0].gates == ()


class RootMeanSquare(nn.Module):
    """A norm that is written out, as those of Hugging Face are."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def test_the_weight_of_a_norm_is_no_gate():
    found = find_structure(Sum(None, nn.Sequential(layers(2), RootMeanSquare())), X)
    assert found.norms == ("parts.1.1",)
    assert found.branches[0].gates == ()


class Positions(nn.Module):
    """Adds the same positions before each layer, as detectors do."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(1, 4))
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        positions = self.positions.expand(len(x), -1)
        return self.second(self.first(x + positions) + positions)


def test_positions_are_no_shortcut():
    assert ends(Positions()) == []


class HeadFirst(nn.Module):
    """Its head is registered before all other layers."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.body = Sum(None, layers(2))

    def forward(self, x):
        return {"logits": self.head(self.body(x)), "probability": 0.5}


def test_heads():
    found = find_structure(HeadFirst(), X)
    assert (found.heads, [layer.name for layer in found.layers][-1]) == (("head",), "head")
    mlp = create_model("mlp", depth=3)
    last = [name for name, module in mlp.named_modules() if isinstance(module, nn.Linear)][-1]
    assert find_structure(mlp, torch.zeros(1, 3, 32, 32)).heads == (last,)
    headless = find_structure(Sum(None, layers(2)), X)
    assert headless.heads == ()
    assert headless.unknown == {
        "heads": "no weight layer is between the last residual branch, of the model itself, and the output"
    }


class LinearAttention(nn.Module):
    """Without a softmax (Katharopoulos et al., Transformers are RNNs, ICML 2020)."""

    def __init__(self, softmax=False):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(4, 4), nn.Linear(4, 8), nn.Linear(4, 4)
        self.softmax = nn.Softmax(dim=-1) if softmax else None

    def forward(self, x, memory):
        q, (k, v) = self.q(x), self.kv(memory).chunk(2, -1)
        if self.softmax is None:
            return self.out(q.relu() @ (k.relu().transpose(1, 2) @ v))
        weights = self.softmax(torch.einsum("bqc,bkc->bqk", q, k) / 2)
        return self.out(torch.einsum("bqk,bkc->bqc", weights, v))


def test_attention_of_other_kinds():
    x, memory = torch.ones(1, 3, 4), torch.ones(1, 5, 4)
    crossed = find_structure(LinearAttention(softmax=True), (x, memory))
    assert crossed.attention == (Attention("", ("q",), ("kv",), ("kv",), ("out",)),)
    assert (crossed.unknown, crossed.heads) == ({}, ("out",))
    other = find_structure(LinearAttention(), (x, memory))
    assert other.attention == ()
    assert other.unknown == {
        "attention": "the model multiplies two results, which may be an attention without a softmax"
    }


def test_weights_that_are_made_from_others():
    made = OrderedDict(
        normalized=parametrizations.weight_norm(nn.Linear(4, 4)),
        spectral=parametrizations.spectral_norm(nn.Linear(4, 4)),
    )
    found = find_structure(nn.Sequential(made), X)
    assert [(layer.name, layer.weight) for layer in found.layers] == [
        ("normalized", "normalized.parametrizations.weight.original1"),
        ("spectral", "spectral.parametrizations.weight.original"),
    ]
    with pytest.warns(FutureWarning):
        legacy = nn.utils.weight_norm(nn.Linear(4, 4))
    assert [(layer.name, layer.weight) for layer in find_structure(legacy, X).layers] == [("", "weight_v")]


class Functional(nn.Module):
    """Uses one layer twice and the weight of another, transposed, without calling it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.never = nn.Linear(4, 4)

    def forward(self, x):
        if x.sum() > 0:  # which cannot be traced
            x = functional.relu(self.first(self.first(x)))
        return x @ self.second.weight.t()


def test_layers_count_their_runs():
    found = find_structure(Functional(), X)
    assert [(layer.name, layer.runs, layer.depth) for layer in found.layers] == [("first", 2, 1), ("second", 1, 3)]
    assert found.unused == ("second.bias", "never.weight", "never.bias")
    assert str(found) == (
        "layers: 2 (2 linear), at most 3 one after another\nresidual branches: 0\nheads: 1 (second)\nnorms: 0\n"
        "not used: 3 (second.bias, never.weight, ...)"
    )


class Unseen(nn.Module):
    """Computes in NumPy, where nothing of it is seen."""

    def __init__(self, with_weight):
        super().__init__()
        self.linear = nn.Linear(4, 4) if with_weight else None

    def forward(self, x):
        values = x.numpy() if self.linear is None else x.numpy() @ self.linear.weight.detach().numpy()
        return torch.from_numpy(values * 2)


def test_what_does_not_show_itself():
    """Its results come from the inputs of its module; what it does to weights is unknown."""
    found = find_structure(Sum(None, nn.Sequential(layers(1), Unseen(with_weight=False), layers(1))), X)
    assert [(branch.ends, branch.depth) for branch in found.branches] == [(("parts.1.2.0",), 2)]
    assert "branches" not in found.unknown
    found = find_structure(nn.Sequential(layers(1), Unseen(with_weight=True)), X)
    reason = "code that the recorder cannot see runs in 1, which has 1.linear.weight"
    assert found.unknown == dict.fromkeys(("layers", "branches", "heads", "attention"), reason)


def test_a_model_that_fails():
    with pytest.raises(
        InitializationError, match=r"^the model fails on inputs of shape \(1, 3\) and type float32: RuntimeError: "
    ):
        find_structure(layers(1), torch.ones(1, 3))


class PooledQueries(nn.Module):
    """Adds the queries to the attention's result, as MViTv2 does (Li et al., CVPR 2022): no layer is between."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        q = self.q(x)
        k = self.k(x)
        return self.out(functional.scaled_dot_product_attention(q, k, k) + q)


def test_a_branch_goes_through_its_layers():
    found = find_structure(PooledQueries(), torch.ones(1, 3, 4))
    assert found.branches == ()
    assert found.attention == (Attention("", ("q",), ("k",), ("k",), ("out",)),)
