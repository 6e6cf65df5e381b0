"""MetaInit's first steps on gpt against the oracle, in float64."""

from __future__ import annotations

import pytest
import torch
from cases import randomize
from small_gpt import gpt, tokens
from test_metainit_oracle import SMOOTH, oracle
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from initbench.initializers.initialize import initialize

BATCHES = [(inputs, targets.flatten()) for inputs, targets in (tokens(3, 5, seed=seed) for seed in range(5))]


class Flat(nn.Module):
    """The logits of all positions one after another, as the oracle's loss takes them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return self.model(inputs).flatten(0, 1)


class WrittenOut(nn.Module):
    """PyTorch's third derivative of layer normalization is wrong."""

    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias, self.eps = layer.weight, layer.bias, layer.eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.weight + self.bias


# Adam uses the size of a derivative, by its ratio to those of the steps before, and not its sign alone.
@pytest.mark.parametrize("variant", [{}, {"optimizer": "adam", **SMOOTH}], ids=["signsgd", "adam"])
@pytest.mark.parametrize(
    "network",
    [
        {"norm": "pre"},
        {"norm": "pre", "tied": False, "norm_type": "rms"},
        {"norm": "post", "activation": "swiglu"},
        {"norm": "none", "positions": "rotary"},
        {"norm": "none", "tied": False, "activation": "relu"},
    ],
)
def test_the_first_steps_are_those_of_the_oracle(network, variant):
    model, reference = (Flat(randomize(gpt(depth=1, **network), 0.3)).eval() for _ in range(2))
    for module in list(reference.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.LayerNorm):
                setattr(module, name, WrittenOut(child))
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    with sdpa_kernel(SDPBackend.MATH):
        history, norms, flips = oracle(reference, BATCHES, **variant)
    record = initialize(model, "metainit", base=None, steps=5, batches=BATCHES, loss_fn=cross_entropy, **variant)
    assert [step["gradient_quotient"] for step in record.history] == pytest.approx(history, rel=1e-8)
    assert record.conditions["sign_flips"] == flips
    for name, p in model.named_parameters():
        scale = norms[name] / start[name].norm() if name in norms else 1.0
        torch.testing.assert_close(p.detach(), scale * start[name], rtol=1e-8, atol=1e-12)
