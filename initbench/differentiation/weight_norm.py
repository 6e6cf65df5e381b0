"""Weight normalization whose second derivatives are right.

PyTorch's first derivative is made of the norms of v, which its second one takes for constants: for v it is wrong, by as
much as its own size, and without a word. Here they depend on v. Value and first derivative are PyTorch's; where the
norms are not taken over the first or the last dimension PyTorch's are right, and used.

Salimans & Kingma, Weight Normalization, NeurIPS 2016, equations (2) and (3).

Needed while `test_what_pytorch_gets_wrong_or_lacks` passes for ``weight_norm``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

if TYPE_CHECKING:
    from collections.abc import Callable

_of_pytorch = torch._weight_norm  # noqa: SLF001 - the function that PyTorch's parametrization calls
_interface = torch.ops.aten._weight_norm_interface  # noqa: SLF001 - what it computes it by
_interface_backward = torch.ops.aten._weight_norm_interface_backward  # noqa: SLF001 - as well


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    if dim not in {0, v.dim() - 1}:
        return _of_pytorch(v, g, dim)
    result: Tensor = _WeightNorm.apply(v.contiguous(), g.contiguous(), dim)
    return result


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {_of_pytorch: _weight_norm}


class _WeightNorm(Function):
    """g·v/‖v‖."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, g: Tensor, dim: int) -> Tensor:
        weight, norms = _interface(v, g, dim)
        ctx.save_for_backward(v, g, norms)
        ctx.dim = dim
        result: Tensor = weight
        return result

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
