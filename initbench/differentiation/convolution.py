"""Convolutions whose second derivatives are computed by the kernels of the first derivatives.

PyTorch computes the second derivative of a convolution with transposed and grouped convolutions. Some are slower than
the kernels of its backward pass, although these compute the same sums. Values and derivatives of any order equal
PyTorch's up to rounding. Padding given by name and inputs without a batch dimension are left to PyTorch.

Needed while `test_pytorch_differentiates_convolutions_twice_by_other_convolutions` passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

_DIMENSIONS = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
_backward = torch.ops.aten.convolution_backward


class _Geometry(NamedTuple):
    """Stride, padding, dilation (one value per dimension) and groups of a convolution."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return torch.convolution(
            x, weight, bias, self.stride, self.padding, self.dilation, False, (0,) * len(self.stride), self.groups
        )

    def gradients(self, g: Tensor, x: Tensor, weight: Tensor, *, of_x: bool, of_weight: bool) -> tuple[Tensor, Tensor]:
        """Return the requested gradients for `x` and `weight`, given the output's gradient."""
        gradients: tuple[Tensor, Tensor, Tensor] = _backward(
            g,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            (0,) * len(self.stride),
            self.groups,
            (of_x, of_weight, False),
        )
        return gradients[0], gradients[1]


def _convolve(
    function: Callable[..., Tensor],
    input: Tensor,  # noqa: A002 - the name that callers may use
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    dimensions = _DIMENSIONS[function]
    if isinstance(padding, str) or input.dim() != dimensions + 2:
        return function(input, weight, bias, stride, padding, dilation, groups)
    geometry = _Geometry(_each(stride, dimensions), _each(padding, dimensions), _each(dilation, dimensions), groups)
    return _Convolution.apply(input, weight, bias, geometry)


def _each(size: int | tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    return (size,) * dimensions if isinstance(size, int) else tuple(size) * (dimensions // len(size))


REPLACEMENTS: dict[Callable[..., Any], Callable[..., Any]] = {
    function: partial(_convolve, function) for function in _DIMENSIONS
}


class _Convolution(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: _Geometry) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = geometry
        return geometry.convolve(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        of_x, of_weight, of_bias, _ = ctx.needs_input_grad
        for_x, for_weight = _Gradients.apply(g, *ctx.saved_tensors, ctx.geometry, of_x, of_weight)
        return for_x, for_weight, g.sum((0, *range(2, g.dim()))) if of_bias else None, None


class _Gradients(Function):
    """The gradients for x and the weight, given g; each is linear in g."""

    @staticmethod
    def forward(
        ctx: Any, g: Tensor, x: Tensor, weight: Tensor, geometry: _Geometry, of_x: bool, of_weight: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(g, x, weight)
        ctx.geometry = geometry
        ctx.set_materialize_grads(False)
        return geometry.gradients(g, x, weight, of_x=of_x, of_weight=of_weight)

    @staticmethod
    def backward(ctx: Any, u: Tensor | None, v: Tensor | None) -> tuple[Tensor | None, ...]:
        """Return the derivatives of ⟨u, gradient for x⟩ + ⟨v, gradient for the weight⟩ = ⟨g, u∗weight + x∗v⟩."""
        g, x, weight = ctx.saved_tensors
        geometry = ctx.geometry
        for_g = for_x = for_weight = None
        if u is not None:
            for_g = geometry.convolve(u, weight)
            if ctx.needs_input_grad[2]:
                for_weight = geometry.gradients(g, u, weight, of_x=False, of_weight=True)[1]
        if v is not None:
            with_v = geometry.convolve(x, v)
            for_g = with_v if for_g is None else for_g + with_v
            if ctx.needs_input_grad[1]:
                for_x = geometry.gradients(g, x, v, of_x=True, of_weight=False)[0]
        return for_g, for_x, for_weight, None, None, None
