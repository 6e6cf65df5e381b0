"""A rewritten model also runs backward."""

from __future__ import annotations

import pytest
import timm
import torch
from cases import batch
from torch import nn
from torch.nn.functional import cross_entropy

import initbench
from initbench.errors import ArgumentError


class PreActivated(nn.Module):
    """A pre-activation block, whose activation may write into the norm's output but not into the block's input."""

    def __init__(self, *, inplace: bool):
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.norm, self.activation = nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU(inplace=inplace)
        self.first, self.last, self.head = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)
        self.drop = nn.Dropout(0.1, inplace=True)

    def forward(self, x):
        x = self.stem(x)
        return self.head(x + self.last(self.drop(self.first(self.activation(self.norm(x))).tanh())))


@pytest.mark.parametrize("scheme", ["skipinit", "weight_norm"])
def test_without_its_norm_an_activation_does_not_write_into_the_shortcut(scheme):
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    models = [PreActivated(inplace=inplace) for inplace in (True, False)]
    rewritten = [initbench.rewrite(model, scheme, inputs=x).eval() for model in models]
    first, second = (model(x) for model in rewritten)
    assert torch.equal(first, second)
    assert models[0].activation.inplace
    assert rewritten[0].drop.inplace  # dropout is left alone: its random numbers may depend on it


class Divided(nn.Module):
    """Writes by a function into what the gradient needs."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.last = nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.inner(self.norm(x)).sigmoid()
        return x + self.last(hidden * hidden.add_(1))


def test_a_model_that_fails_backward_is_refused():
    with pytest.raises(
        ArgumentError, match=r"^skipinit: the rewritten Divided does not run: the backward pass of"
    ) as e:
        initbench.rewrite(Divided(), "skipinit", inputs=torch.zeros(2, 4))
    assert "\n" not in str(e.value)
    with pytest.raises(ValueError, match="does not run"):  # an ArgumentError is both
        initbench.rewrite(Divided(), "fixup", inputs=torch.zeros(2, 4))


class Closed(nn.Module):
    """A branch behind whose end the slope of the activation is 0 where a gate of 0 stands before it."""

    def __init__(self):
        super().__init__()
        self.inner, self.last, self.head = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 3)
        nn.init.zeros_(self.last.weight)

    def forward(self, x):
        return self.head(x + self.last(self.inner(x).tanh()))


def test_a_gate_of_0_behind_a_layer_of_0_is_named():
    with pytest.warns(
        UserWarning, match=r"^skipinit: in the rewritten Closed, last\.branch\.weight and 1 more would stay"
    ):
        initbench.rewrite(Closed(), "skipinit", inputs=torch.zeros(2, 4))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["skipinit", "weight_norm"])
def test_dual_path_networks_run_backward(scheme):
    torch.manual_seed(0)
    model = initbench.rewrite(timm.create_model("dpn48b", num_classes=10), scheme, inputs=torch.zeros(2, 3, 32, 32))
    initbench.initialize(model, scheme, input_shape=(2, 3, 32, 32))
    inputs, targets = batch((2, 3, 32, 32), dtype=torch.float32)
    cross_entropy(model(inputs), targets).backward()
    assert all(p.grad is not None for p in model.parameters())
