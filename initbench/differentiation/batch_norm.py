"""BatchNorm on the statistics of the batch, of operations that have all derivatives.

PyTorch's has two; MetaInit's derivative of the gradient quotient is a third derivative of the loss. Running statistics
are left as they are. BatchNorm on running statistics has all derivatives, and is PyTorch's.

Needed while `test_pytorch_differentiates_batch_norm_twice` passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from collections.abc import Callable


def _batch_norm(
    input: Tensor,  # noqa: A002 - the name that callers may use
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if input.numel() == input.shape[1]:
        raise InitializationError(
            f"BatchNorm has no statistics of one value per channel, input of shape {tuple(input.shape)}; give larger "
            "batches"
        )
    variance, mean = torch.var_mean(input, (0, *range(2, input.dim())), correction=0, keepdim=True)
    normalized = (input - mean) * torch.rsqrt(variance + eps)
    shape = mean.shape
    if weight is not None:
        normalized = normalized * weight.view(shape)
    return normalized if bias is None else normalized + bias.view(shape)


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {F.batch_norm: _batch_norm}
