"""β-Swish's closed-form derivatives."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from initbench.architectures.blocks import BetaSwish, beta_swish
from initbench.differentiation.activations import REPLACEMENTS, beta_swish_in_closed_form
from initbench.differentiation.loss import Replaced


@pytest.mark.parametrize("beta", [0.0, 0.7, -1.3])
def test_first_second_and_third_derivatives(beta):
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.randn(3, 5, dtype=torch.float64, generator=generator)
    inputs = (x.requires_grad_(), torch.tensor([beta], dtype=torch.float64, requires_grad=True))
    torch.testing.assert_close(beta_swish_in_closed_form(*inputs), beta_swish(*inputs))
    torch.testing.assert_close(beta_swish(*inputs), x * torch.sigmoid(beta * x))
    assert gradcheck(beta_swish_in_closed_form, inputs)
    assert gradgradcheck(beta_swish_in_closed_form, inputs)

    def third(function):
        first = torch.autograd.grad(function(*inputs).tanh().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.sin().sum() for g in second), inputs)

    for got, expected in zip(third(beta_swish_in_closed_form), third(beta_swish), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def test_large_inputs_are_saturated():
    x = torch.tensor([-1e4, 1e4], requires_grad=True)
    y = beta_swish_in_closed_form(x, torch.ones(1))
    assert y.tolist() == [0.0, 1e4]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0.0, 1.0]


def test_our_layers_are_computed_so_within_the_context_alone():
    layer, x = BetaSwish(), torch.ones(3, requires_grad=True)
    with Replaced(REPLACEMENTS):
        assert type(layer(x).grad_fn).__name__ == "_BetaSwishBackward"
    assert type(layer(x).grad_fn).__name__ == "MulBackward0"


def test_the_transforms_of_torch_func_work_outside_the_context():
    x = torch.tensor([0.3, -2.0], dtype=torch.float64)
    beta = torch.tensor([0.7], dtype=torch.float64)
    hessian = torch.func.jacrev(torch.func.grad(lambda x: beta_swish(x, beta).sum()))(x)
    expected = torch.autograd.functional.hessian(lambda x: beta_swish_in_closed_form(x, beta).sum(), x)
    torch.testing.assert_close(hessian, expected)
