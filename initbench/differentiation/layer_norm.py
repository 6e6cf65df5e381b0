"""Layer normalization of operations whose third derivatives are right.

PyTorch's third derivative for the input is wrong, by a tenth or so and without a word; its first and second are right.
MetaInit's derivative of the gradient quotient is a third derivative of the loss. What is replaced is the function of
our own layers: networks of others call PyTorch's, and keep the numbers that they had.

Needed while `test_pytorch_gets_the_third_derivative_of_layer_norm_wrong` passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from initbench.architectures.layer_norm import layer_norm

if TYPE_CHECKING:
    from collections.abc import Callable


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    normalized = (x - mean) * torch.rsqrt(variance + eps) * weight
    return normalized if bias is None else normalized + bias


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {layer_norm: _layer_norm}
