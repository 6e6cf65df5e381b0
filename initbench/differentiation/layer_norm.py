"""Layer normalization of operations whose third derivatives are right.

PyTorch's third derivative for the input is wrong, by a tenth or so and without a word; its first and second are right.
MetaInit's derivative of the gradient quotient is a third derivative of the loss.

Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``layer_norm``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from initbench.architectures.blocks import layer_norm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _layer_norm(
    input: Tensor,  # noqa: A002 - the name that callers may use
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    del cudnn_enable
    variance, mean = torch.var_mean(input, tuple(range(-len(normalized_shape), 0)), correction=0, keepdim=True)
    normalized = (input - mean) * torch.rsqrt(variance + eps)
    if weight is not None:
        normalized = normalized * weight
    return normalized if bias is None else normalized + bias


def _of_our_own(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    return _layer_norm(x, weight.shape, weight, bias, eps)


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {
    layer_norm: _of_our_own,
    F.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
}
