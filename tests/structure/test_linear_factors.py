"""Which layers are a factor of a product of two signals without an activation: up projections of gated parts."""

from __future__ import annotations

import pytest
import torch
from small_gpt import gpt, tokens
from torch import nn
from torch.nn import functional
from transformer_parts import Stream

from initbench.structure.find import find_structure


class Gated(nn.Module):
    """down(f(gate(x)) · up(x)) for an activation f, or a product that a test gives."""

    def __init__(self, product):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 4)
        self.product = product

    def forward(self, x):
        return self.down(self.product(self.gate(x), self.up(x)))


@pytest.mark.parametrize(
    ("product", "factors"),
    [
        (lambda gate, up: gate.sigmoid() * up, {"up"}),
        (lambda gate, up: up * functional.silu(gate), {"up"}),
        (lambda gate, up: functional.gelu(gate) * functional.dropout(2 * up.transpose(0, 1).transpose(0, 1)), {"up"}),
        (lambda gate, up: gate * up, {"gate", "up"}),
        (lambda gate, up: gate.tanh() * up.sigmoid(), set()),
        (lambda gate, up: functional.gelu(gate + up), set()),
        (lambda gate, up: 0.5 * gate * (1 + (gate + gate**3).tanh()) * up, {"up"}),  # GELU written out
    ],
)
def test_a_factor_is_linear_without_an_activation(product, factors):
    [branch] = find_structure(Stream(f=Gated(product)).eval(), torch.zeros(1, 5, 4)).branches
    assert set(branch.linear_factors) == {f"f.{name}" for name in factors}


@pytest.mark.parametrize(("activation", "factors"), [("gelu", ()), ("swiglu", ("h.0.mlp.c_fc",))])
def test_of_our_language_model(activation, factors):
    attention, feed_forward, *_ = find_structure(gpt(activation=activation), tokens()[0]).branches
    assert attention.linear_factors == ()
    assert feed_forward.linear_factors == factors
