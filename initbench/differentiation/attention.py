"""Attention by the kernel that has derivatives of all orders.

PyTorch's fused kernels of attention have a first derivative and no second one. Its kernel "math" is made of matrix
products and a softmax, which have all.

Needed while `test_pytorch_differentiates_fused_attention_once` passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


def math_kernel() -> AbstractContextManager[None]:
    """Return a context within which scaled dot-product attention, wherever a model calls it, is computed so.

    It is PyTorch's own switch: `torch.nn.MultiheadAttention` calls attention from within a function of PyTorch, where
    nothing can be replaced.
    """
    kernel: AbstractContextManager[None] = sdpa_kernel(SDPBackend.MATH)
    return kernel
