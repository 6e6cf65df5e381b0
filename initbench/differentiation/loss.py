"""A loss that can be differentiated three times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from initbench.differentiation import activations, convolution, norms
from initbench.models.batches import LossFunction
from initbench.models.calls import mean_loss


def math_kernel() -> AbstractContextManager[None]:
    """Return a context in which attention uses the kernel "math", which has derivatives of all orders.

    PyTorch's fused kernels have only a first derivative. This is PyTorch's own switch: `torch.nn.MultiheadAttention`
    calls attention inside a PyTorch function, where nothing can be replaced.

    Needed while `test_pytorch_differentiates_fused_attention_once` passes.
    """
    return sdpa_kernel(SDPBackend.MATH)


class Replaced(TorchFunctionMode):
    """Within this context some functions are computed by others.

    It sees each PyTorch function that any layer of any model calls, and our own functions that use
    `torch.overrides.handle_torch_function`. Functions called by a replacement are not replaced.
    """

    def __init__(self, replacements: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        super().__init__()
        self._replacements = replacements

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        return self._replacements.get(function, function)(*arguments, **(options or {}))


_ALWAYS = convolution.REPLACEMENTS | activations.REPLACEMENTS | norms.WEIGHT_NORM


def differentiable_loss(
    model: Callable[[Tensor], Any],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: LossFunction,
    *,
    batch_norm: bool = False,
    third: bool = False,
) -> Tensor:
    """Return the loss of one batch, 0-dim, ready to be differentiated two or three times, also under `torch.no_grad`.

    It is the model's loss in its current mode, up to rounding. Derivatives are taken outside, by `loss_gradients` and
    `hessian_products`, which need no context. The forward pass does not work under the transforms of `torch.func`,
    which ignore the derivatives defined here. It raises the exceptions of `mean_loss`.

    With `batch_norm`, BatchNorm with batch statistics can also be differentiated three times; it then leaves running
    statistics unchanged. With `third`, the third derivatives of LayerNorm and InstanceNorm are also right, but slower.
    All three then differ from PyTorch's by rounding.
    """
    replacements = _ALWAYS | (norms.BATCH_NORM if batch_norm else {}) | (norms.LAYER_AND_INSTANCE_NORM if third else {})
    with torch.enable_grad(), math_kernel(), Replaced(replacements):
        return mean_loss(model, (inputs, targets), loss_fn)
