"""β-Swish with derivatives in closed form.

They take fewer passes over memory than PyTorch's, which go operation by operation.

With s = sigmoid(βx), s′ = s(1 − s) and s″ = s′(1 − 2s), they are s + βx·s′ for x and x²·s′ for β.

Needed while `test_pytorch_writes_more_tensors_for_the_second_derivatives_of_beta_swish` passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from initbench.architectures.blocks import beta_swish

if TYPE_CHECKING:
    from collections.abc import Callable


def closed_form(x: Tensor, beta: Tensor) -> Tensor:
    """Return x·sigmoid(βx); values and derivatives are those of `beta_swish` up to rounding.

    Args:
        x: any shape.
        beta: (1,).
    """
    result: Tensor = _BetaSwish.apply(x, beta)
    return result


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {beta_swish: closed_form}


class _BetaSwish(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, beta)
        return (x * beta).sigmoid_().mul_(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = _Gradients.apply(g, *ctx.saved_tensors)
        return found


class _Gradients(Function):
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
