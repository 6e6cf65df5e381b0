"""Activations with derivatives in closed form, which take fewer passes over memory or are missing in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.autograd import Function

from initbench.architectures.blocks import beta_swish, tanh_gelu


def beta_swish_in_closed_form(x: Tensor, beta: Tensor) -> Tensor:
    """Return x·sigmoid(βx); values and derivatives equal `beta_swish`'s up to rounding.

    With s = sigmoid(βx), s′ = s(1 − s) and s″ = s′(1 − 2s), the derivatives are s + βx·s′ for x and x²·s′ for β.

    Needed while `test_pytorch_writes_more_tensors_for_the_second_derivatives_of_beta_swish` passes.
    """
    return _BetaSwish.apply(x, beta)


class _BetaSwish(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, beta)
        return (x * beta).sigmoid_().mul_(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        return _BetaSwishGradients.apply(g, *ctx.saved_tensors)


class _BetaSwishGradients(Function):
    """g·(s + βx·s′) and Σ g·x²·s′."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(g, x, beta)
        z = x * beta
        s = torch.sigmoid(z)
        s1 = torch.addcmul(s, s, s, value=-1)
        for_x = torch.addcmul(s, z, s1).mul_(g)
        return for_x, s1.mul_(x).mul_(x).mul_(g).sum().view_as(beta)

    @staticmethod
    def backward(ctx: Any, u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """Return the derivatives of Σ u·g·(s + βx·s′) + v·Σ g·x²·s′.

        With r = βu + vx they are u·s + x·s′·r for g, g·(2s′ + βx·s″)·r for x and Σ g·x·(2u·s′ + x·s″·r) for β.
        """
        g, x, beta = ctx.saved_tensors
        # What is differentiated again must keep its intermediate values.
        graph = torch.is_grad_enabled()
        mul, addcmul = (Tensor.mul, Tensor.addcmul) if graph else (Tensor.mul_, Tensor.addcmul_)
        s = (x * beta).sigmoid_()
        s1 = torch.addcmul(s, s, s, value=-1)
        xs2 = mul(torch.addcmul(s1, s1, s, value=-2), x)
        r = addcmul(v * x, u, beta)
        for_g = addcmul(mul(s, u), x * s1, r)
        for_beta = mul(mul(addcmul(xs2 * r, u, s1, value=2), x), g).sum().view_as(beta)
        for_x = mul(mul(addcmul(mul(s1, 2), xs2, beta), r), g)
        return for_g, for_x, for_beta


_K, _A = math.sqrt(2 / math.pi), 0.044715
_backward = torch.ops.aten.gelu_backward


def gelu_in_closed_form(x: Tensor) -> Tensor:
    """Return GELU's tanh form; values and derivatives equal `tanh_gelu`'s up to rounding.

    With f(x) = x/2 · (1 + t), t = tanh(k(x + ax³)), k = √(2/π) and a = 0.044715, the second derivative is
    f″ = (1 − t²)(k(1 + 6ax²) − x·t·k²(1 + 3ax²)²).

    Needed while `test_pytorch_writes_more_tensors_for_the_second_derivatives_of_gelu` passes.
    """
    return _Gelu.apply(x)


class _Gelu(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return F.gelu(x, approximate="tanh")

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return _GeluGradient.apply(g, *ctx.saved_tensors)


class _GeluGradient(Function):
    """g·f′."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return _backward(g, x, approximate="tanh")

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives of Σ u·g·f′: u·f′ for g and u·g·f″ for x."""
        g, x = ctx.saved_tensors
        # What is differentiated again must keep its intermediate values.
        graph = torch.is_grad_enabled()
        add, mul = (Tensor.add, Tensor.mul) if graph else (Tensor.add_, Tensor.mul_)
        square = x * x
        slope = add(square * (_K * 3 * _A), _K)  # derivative of the tanh's argument
        t = torch.tanh(x * add(square * (_K * _A), _K))
        bend = add(mul(square, _K * 6 * _A), _K)
        bend = torch.addcmul(bend, x * t, mul(slope, slope), value=-1)
        for_x = mul(mul(mul(bend, torch.addcmul(t.new_ones(()), t, t, value=-1)), g), u)
        for_g: Tensor = _GeluGradient.apply(u, x)
        return for_g, for_x


def _hard_sigmoid(input: Tensor, inplace: bool = False) -> Tensor:  # noqa: A002 - the name that callers may use
    # PyTorch has only its first derivative, but all of ReLU6's, which are 0 from the second on. Needed while
    # `test_what_pytorch_gets_wrong_or_lacks` passes for ``hardsigmoid``.
    result = F.relu6(input + 3) / 6
    return input.copy_(result) if inplace else result


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {
    beta_swish: beta_swish_in_closed_form,
    tanh_gelu: gelu_in_closed_form,
    F.hardsigmoid: _hard_sigmoid,
}
