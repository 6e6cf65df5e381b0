"""What PyTorch lacks: one test for each function of `initbench/differentiation` that does it in another way.

Where one of these fails, PyTorch has what it lacked: it can go, and numbers may move in the last digits.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from initbench.architectures.blocks import beta_swish, tanh_gelu
from initbench.differentiation import convolution, norms
from initbench.differentiation.activations import beta_swish_in_closed_form, gelu_in_closed_form


def tensors(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def derivatives(function, inputs, order):
    """Differentiate the sum of the function's squares with respect to all inputs, and so on."""
    result = [function(*inputs)]
    for _ in range(order):
        result = torch.autograd.grad(sum(r.square().sum() for r in result), inputs, create_graph=True)
    return result


class Operations(TorchDispatchMode):
    """Counts the operations that run within this context, by name."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.counts[function.overloadpacket.__name__] += 1
        return function(*arguments, **(options or {}))


def second_derivatives(function, inputs):
    """The operations of a second derivative, without those of the first."""
    first = derivatives(function, inputs, 1)
    with Operations() as operations:
        torch.autograd.grad(sum(g.square().sum() for g in first), inputs)
    return operations.counts


def test_pytorch_differentiates_fused_attention_once():
    inputs = tensors(*[(2, 2, 4, 8)] * 3)
    attend = functional.scaled_dot_product_attention
    derivatives(attend, inputs, 1)
    with pytest.raises(RuntimeError, match="not implemented"):
        derivatives(attend, inputs, 2)
    with sdpa_kernel(SDPBackend.MATH):
        derivatives(attend, inputs, 3)


def test_pytorch_differentiates_batch_norm_twice():
    inputs = tensors((4, 3, 5), (3,), (3,))

    def normalize(x, weight, bias, normalize=functional.batch_norm):
        return normalize(x, None, None, weight, bias, training=True)

    derivatives(normalize, inputs, 2)
    with pytest.raises(RuntimeError, match=r"3rd\+ order"):
        derivatives(normalize, inputs, 3)
    derivatives(lambda *values: normalize(*values, norms.BATCH_NORM[functional.batch_norm]), inputs, 3)


def test_pytorch_differentiates_convolutions_twice_by_other_convolutions():
    inputs = tensors((2, 4, 6, 6), (4, 4, 3, 3))
    pytorch = second_derivatives(torch.conv2d, inputs)
    ours = second_derivatives(convolution.REPLACEMENTS[torch.conv2d], inputs)
    assert ours["convolution_backward"] > 0
    assert pytorch["convolution_backward"] < ours["convolution_backward"]
    assert pytorch["convolution"] > ours["convolution"]


def test_pytorch_writes_more_tensors_for_the_second_derivatives_of_beta_swish():
    inputs = tensors((4, 3), (1,))

    def not_in_place(function):
        return sum(n for name, n in second_derivatives(function, inputs).items() if not name.endswith("_"))

    # 53 and 36; on one core of a CPU PyTorch takes 2.7 times as long for (32, 16, 32, 32).
    assert not_in_place(beta_swish) > 1.25 * not_in_place(beta_swish_in_closed_form)


def test_pytorch_writes_more_tensors_for_the_second_derivatives_of_gelu():
    inputs = tensors((4, 3))

    def not_in_place(function):
        return sum(n for name, n in second_derivatives(function, inputs).items() if not name.endswith("_"))

    # 48 and 26; with PyTorch's the gradient quotient of a gpt of width 128 took 4.0 gradients, with this 3.5.
    assert not_in_place(tanh_gelu) > 1.25 * not_in_place(gelu_in_closed_form)
