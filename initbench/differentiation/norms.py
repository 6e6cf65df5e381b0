"""Normalizations made of operations whose derivatives exist and are right.

MetaInit's derivative of the gradient quotient is a third derivative of the loss. Running statistics are left unchanged;
normalization with running statistics is left to PyTorch, which has all derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor
from torch.autograd import Function

from initbench.architectures.blocks import layer_norm
from initbench.errors import InitializationError


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
    """BatchNorm with batch statistics, because PyTorch's has only two derivatives.

    Needed while `test_pytorch_differentiates_batch_norm_twice` passes.
    """
    if not training:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if input.numel() == input.shape[1]:
        raise InitializationError(
            f"BatchNorm has no statistics of one value per channel, input of shape {tuple(input.shape)}; give larger "
            "batches"
        )
    shape = (1, -1, *[1] * (input.dim() - 2))
    weight, bias = (None if t is None else t.view(shape) for t in (weight, bias))
    return _normalized(input, (0, *range(2, input.dim())), weight, bias, eps)


def _normalized(x: Tensor, over: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Return (x − mean) / √(variance + ε) · weight + bias, with statistics over some dimensions."""
    variance, mean = torch.var_mean(x, tuple(over), correction=0, keepdim=True)
    normalized = (x - mean) * torch.rsqrt(variance + eps)
    if weight is not None:
        normalized = normalized * weight
    return normalized if bias is None else normalized + bias


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
    """InstanceNorm with the statistics of each image; PyTorch computes it as BatchNorm, with only two derivatives.

    Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``instance_norm``.
    """
    if not use_input_stats:
        return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    if input[0, 0].numel() == 1:
        raise InitializationError(
            f"InstanceNorm has no statistics of one value per channel, input of shape {tuple(input.shape)}; give "
            "larger images"
        )
    shape = (1, -1, *[1] * (input.dim() - 2))
    weight, bias = (None if t is None else t.view(shape) for t in (weight, bias))
    return _normalized(input, range(2, input.dim()), weight, bias, eps)


def _layer_norm(
    input: Tensor,  # noqa: A002 - the name that callers may use
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """LayerNorm, because PyTorch's third derivative for the input is silently wrong, by about a tenth.

    Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``layer_norm``.
    """
    return _normalized(input, range(-len(normalized_shape), 0), weight, bias, eps)


def _affine_layer_norm(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> Tensor:
    return _layer_norm(x, weight.shape, weight, bias, eps)


_of_pytorch = torch._weight_norm  # noqa: SLF001 - the function that PyTorch's parametrization calls
_interface = torch.ops.aten._weight_norm_interface  # noqa: SLF001 - and its implementation
_interface_backward = torch.ops.aten._weight_norm_interface_backward  # noqa: SLF001 - likewise


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """Weight normalization (Salimans & Kingma, NeurIPS 2016, equations (2) and (3)), with PyTorch's value and gradient.

    PyTorch's first derivative contains the norms of v, which its second derivative takes for constants: for v it is
    silently wrong, by as much as its own size. Here the norms depend on v. If the norms are not taken over the first or
    last dimension, PyTorch's derivatives are right, and used.

    Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``weight_norm``.
    """
    if dim not in {0, v.dim() - 1}:
        return _of_pytorch(v, g, dim)
    return _WeightNorm.apply(v.contiguous(), g.contiguous(), dim)


class _WeightNorm(Function):
    """g·v/‖v‖."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, g: Tensor, dim: int) -> Tensor:
        weight, norms = _interface(v, g, dim)
        ctx.save_for_backward(v, g, norms)
        ctx.dim = dim
        return weight

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the derivatives of ⟨u, g·v/‖v‖⟩: g/‖v‖ · (u − v·⟨u, v⟩/‖v‖²) for v and ⟨u, v⟩/‖v‖ for g."""
        v, g, norms = ctx.saved_tensors
        if not torch.is_grad_enabled():
            for_v, for_g = _interface_backward(u.contiguous(), v, g, norms, ctx.dim)
            return for_v, for_g, None
        norms = torch.norm_except_dim(v, 2, ctx.dim)
        along = (u * v).sum([d for d in range(v.dim()) if d != ctx.dim], keepdim=True)
        return g / norms * (u - v * (along / norms.square())), along / norms, None


WEIGHT_NORM: dict[Callable[..., Any], Callable[..., Any]] = {_of_pytorch: _weight_norm}
BATCH_NORM: dict[Callable[..., Any], Callable[..., Any]] = {F.batch_norm: _batch_norm}
LAYER_AND_INSTANCE_NORM: dict[Callable[..., Any], Callable[..., Any]] = {
    layer_norm: _affine_layer_norm,
    F.layer_norm: _layer_norm,
    torch.layer_norm: _layer_norm,
    F.instance_norm: _instance_norm,
}
