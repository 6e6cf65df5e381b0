"""BatchNorm on the statistics of the batch that can be differentiated as often as MetaInit does.

Its derivative of the gradient quotient is a third derivative of the loss, and PyTorch's kernel has two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn


class DifferentiableBatchNorm(TorchFunctionMode):
    """Within this context `torch.nn.functional.batch_norm` on the statistics of the batch has all derivatives.

    It then leaves running statistics as they are. On running statistics it is PyTorch's.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        """Compute batch normalization, and everything else as it is."""
        options = options or {}
        if function is F.batch_norm:
            return _batch_norm(*arguments, **options)
        return function(*arguments, **options)


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """Return the BatchNorm layers."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm)]


def uses_batch_statistics(layer: _BatchNorm) -> bool:
    """Return whether a BatchNorm layer uses the statistics of the batch, as one without running ones always does."""
    return layer.training or layer.running_mean is None


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
