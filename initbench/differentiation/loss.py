"""A loss that can be differentiated three times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from initbench.differentiation import batch_norm as batch_normalization
from initbench.differentiation import (
    beta_swish,
    convolution,
    gelu,
    hard_sigmoid,
    instance_norm,
    layer_norm,
    weight_norm,
)
from initbench.differentiation.attention import math_kernel
from initbench.differentiation.replacement import Replaced
from initbench.models.user_code import mean_loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from initbench.batches import LossFunction

_ALWAYS = (
    convolution.REPLACEMENTS
    | beta_swish.REPLACEMENTS
    | gelu.REPLACEMENTS
    | hard_sigmoid.REPLACEMENTS
    | weight_norm.REPLACEMENTS
)
_THIRD = layer_norm.REPLACEMENTS | instance_norm.REPLACEMENTS


def differentiable_loss(
    model: Callable[[Tensor], Any],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: LossFunction,
    *,
    batch_norm: bool = False,
    third: bool = False,
) -> Tensor:
    """Return the loss of one batch, 0-dim, ready to be differentiated twice or three times, also under `torch.no_grad`.

    It is the model's loss in the mode that the model is in, up to rounding. Its derivatives are taken outside, by
    `loss_gradients` and `hessian_products`; they need no context. The forward pass is not for the transforms of
    `torch.func`, which do not take the derivatives that are written here.

    Args:
        model: the model, or its forward pass with other values in place of its parameters (see `functional`).
        inputs: (batch, ...), what the model takes.
        targets: what `loss_fn` takes.
        loss_fn: mean loss of a batch from (outputs, targets).
        batch_norm: whether BatchNorm on the statistics of the batch can be differentiated three times, too. It then
            leaves running statistics as they are, and differs from PyTorch's, which has two derivatives, by rounding.
        third: whether the third derivatives of LayerNorm and InstanceNorm are right, too: PyTorch's of LayerNorm are
            not, and of InstanceNorm it has none. Both then differ from PyTorch's by rounding, and take longer.

    Raises:
        InitializationError: the model or `loss_fn` raises an exception, which is then the cause of this one.
        ArgumentError: `loss_fn` does not return a 0-dim tensor.
    """
    replacements = _ALWAYS | (batch_normalization.REPLACEMENTS if batch_norm else {})
    if third:
        replacements = replacements | _THIRD
    with torch.enable_grad(), math_kernel(), Replaced(replacements):
        return mean_loss(model, (inputs, targets), loss_fn)
