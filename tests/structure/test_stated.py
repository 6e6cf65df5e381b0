"""Structures that a model states itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

import initbench
from initbench.errors import InitializationError


class Stated(nn.Module):
    """Two heads of which one run shows one: the other one is for training."""

    def __init__(self, heads):
        super().__init__()
        self.stem, self.one, self.other = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        self._heads = heads

    def forward(self, x):
        return self.one(self.stem(x).relu())

    def initbench_structure(self, found):
        return dataclasses.replace(found, heads=self._heads(found))


def test_a_model_that_knows_better_is_believed():
    found = initbench.find_structure(Stated(lambda found: (*found.heads, "other")), torch.zeros(1, 4))
    assert found.heads == ("one", "other")
    assert [layer.name for layer in found.layers] == ["stem", "one"]
    # So it is where an initializer or a scheme asks: neither of them is weight-normalized.
    rewritten = initbench.rewrite(Stated(lambda _: ("one", "other")), "weight_norm", inputs=torch.zeros(1, 4))
    names = {name for name, _ in rewritten.named_parameters()}
    assert {"one.weight", "other.weight", "stem.parametrizations.weight.original1"} <= names


def test_what_it_has_not_is_refused():
    with pytest.raises(InitializationError) as refused:
        initbench.find_structure(Stated(lambda _: ("one", "missing")), torch.zeros(1, 4))
    assert str(refused.value) == "Stated.initbench_structure names missing, which Stated does not have"
    model = Stated(lambda found: found.heads)
    model.initbench_structure = lambda found: found.heads
    with pytest.raises(InitializationError, match=r"^Stated.initbench_structure returned tuple, not a Structure$"):
        initbench.find_structure(model, torch.zeros(1, 4))
