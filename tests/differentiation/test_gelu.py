"""GELU's closed form: PyTorch's values and derivatives."""

from __future__ import annotations

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from initbench.differentiation.activations import gelu_in_closed_form


def third(function, x):
    """The derivatives of orders 0 to 3 of the sum of its squares."""
    results = [function(x)]
    for _ in range(3):
        results += torch.autograd.grad(results[-1].square().sum(), x, create_graph=True)
    return results


def test_values_and_derivatives_are_those_of_pytorch():
    x = torch.linspace(-6, 6, 101, dtype=torch.float64).requires_grad_()
    ours, pytorch = (third(f, x) for f in (gelu_in_closed_form, lambda x: functional.gelu(x, approximate="tanh")))
    for a, b in zip(ours, pytorch, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    # The same without a graph, where values are written in place.
    g = torch.autograd.grad(gelu_in_closed_form(x).square().sum(), x, create_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(g.square().sum(), x)[0], pytorch[2], rtol=1e-10, atol=1e-12)


def test_derivatives_are_those_of_differences():
    x = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert gradcheck(gelu_in_closed_form, x)
    assert gradgradcheck(gelu_in_closed_form, x)
