"""InstanceNorm on the statistics of each image, of operations that have all derivatives.

PyTorch computes it as a BatchNorm, and has two. Running statistics are left as they are.

Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``instance_norm``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from collections.abc import Callable


def _instance_norm(
    input: Tensor,  # noqa: A002 - the name that callers may use
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if not use_input_stats:
        return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    if input[0, 0].numel() == 1:
        raise InitializationError(
            f"InstanceNorm has no statistics of one value per channel, input of shape {tuple(input.shape)}; give "
            "larger images"
        )
    variance, mean = torch.var_mean(input, tuple(range(2, input.dim())), correction=0, keepdim=True)
    normalized = (input - mean) * torch.rsqrt(variance + eps)
    shape = (1, -1, *[1] * (input.dim() - 2))
    if weight is not None:
        normalized = normalized * weight.view(shape)
    return normalized if bias is None else normalized + bias.view(shape)


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {F.instance_norm: _instance_norm}
