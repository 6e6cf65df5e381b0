"""β-Swish."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_variadic


def beta_swish(x: Tensor, beta: Tensor) -> Tensor:
    """Return x·sigmoid(βx).

    Like a function of PyTorch it can be computed in another way by a `torch.overrides.TorchFunctionMode`.

    Source: Ramachandran, Zoph & Le, Searching for Activation Functions, 2017, section 3.

    Args:
        x: any shape.
        beta: (1,).
    """
    if has_torch_function_variadic(x, beta):
        result: Tensor = handle_torch_function(beta_swish, (x, beta), x, beta)
        return result
    return x * torch.sigmoid(beta * x)
