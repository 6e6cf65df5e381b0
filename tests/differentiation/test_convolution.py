"""Convolutions with derivatives of our own against PyTorch's, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn import functional

from initbench.differentiation.convolution import REPLACEMENTS
from initbench.differentiation.loss import Replaced

CASES = [
    ("conv1d", (2, 4, 7), (6, 4, 3), {}),
    ("conv2d", (2, 4, 5, 6), (6, 4, 3, 3), {"padding": 1}),
    ("conv2d", (2, 4, 5, 6), (6, 4, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": 2}),
    ("conv2d", (2, 4, 5, 6), (6, 2, 3, 3), {"stride": 2, "groups": 2}),
    ("conv2d", (2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "padding": [1]}),
    ("conv2d", (2, 4, 5, 5), (3, 4, 3, 3), {"padding": "same"}),
    ("conv2d", (4, 5, 5), (3, 4, 3, 3), {}),
    ("conv3d", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), {"padding": 1}),
]


def tensors(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_() for s in shapes]


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "shape", "kernel", "options"), CASES, ids=str)
def test_first_second_and_third_derivatives(name, shape, kernel, options, bias):
    convolve = getattr(functional, name)
    inputs = tensors(shape, kernel, *([(kernel[0],)] if bias else []))

    def ours(*values):
        with Replaced(REPLACEMENTS):
            return convolve(*values, **options)

    assert torch.equal(ours(*inputs), convolve(*inputs, **options))
    assert gradcheck(ours, inputs)
    assert gradgradcheck(ours, inputs)

    def third(function):
        first = torch.autograd.grad(function(*inputs).tanh().sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.sin().sum() for g in second), inputs)

    for got, expected in zip(third(ours), third(lambda *values: convolve(*values, **options)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)


def test_layers_are_computed_so_and_frozen_ones_have_no_gradient():
    layer = nn.Conv2d(2, 3, 3).double()
    layer.weight.requires_grad_(requires_grad=False)
    x = tensors((2, 2, 5, 5))[0]
    with Replaced(REPLACEMENTS):
        output = layer(x)
    assert "_Convolution" in type(output.grad_fn).__name__
    output.square().sum().backward()
    assert layer.weight.grad is None
    expected = torch.autograd.grad(layer(x.detach().requires_grad_()).square().sum(), layer.bias)[0]
    torch.testing.assert_close(layer.bias.grad, expected)
