"""The gradient quotient and its derivative for a batch that is in memory one micro-batch at a time.

The loss is a sum over micro-batches, L = Σ Lᵢ, where each is weighted by its share, and so are its derivatives: with
g = Σ gᵢ a Hessian product is Hv = Σ ∇⟨gᵢ, v⟩ for any constant v. Each sum is one *pass* over the micro-batches, which
holds one graph at a time; everything else is a vector as large as the parameters. The quotient is q(g, c), where
c = g − Hg, or g after a step in finite differences; a = ∂q/∂g, and b = ∂q/∂(Hg) or ∂q/∂c, follow from g and c.

exact: dq = ⟨a, dg⟩ + ⟨b, d(Hg)⟩ and d(Hg) = (dH)g + H dg, where dg = H dθ, so that

    ∇q = H(a + Hb) + ∇⟨b, H·stop(g)⟩

1. g; 2. Hg, and q; 3. Hb; 4. the derivative of ⟨gᵢ, a + Hb⟩ + ⟨Hᵢ·stop(g), b⟩, a third derivative of the loss.
In forward and backward passes over the batch: 1 + 1, 1 + 2, 1 + 2, 1 + 3. The value takes 2 + 3, with its derivative
4 + 8; on the whole batch at once they take 1 + 2 and 1 + 3.

finite differences: with θ' = θ − g(θ), c = g(θ') and H' = H(θ'), dc = H'(dθ − dg), so that

    ∇q = H(a − H'b) + H'b

1. g; 2. c, and q; 3. H'b; 4. H(a − H'b): the value takes 2 + 2 passes, with its derivative 4 + 6; on the whole batch
at once they take 2 + 2 and 2 + 3.

For a parameter that g is not taken over, only the last derivative of each product differs: it is taken for that
parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from initbench.differentiation.gradients import (
    accumulated,
    flatten,
    forward_at,
    loss_gradients,
    trainable_parameters,
    unflatten,
    vector_products,
)
from initbench.differentiation.micro_batches import LossOf
from initbench.models.state import forgetful

Tensors = list[Tensor | None]
Quotient = Callable[[Tensor, Tensor], Tensor]
"""GQ from g and c, two vectors."""
Derivative = Callable[[], Tensors]


def micro_batched_quotient(
    model: nn.Module, losses: Sequence[LossOf], parameters: Sequence[Tensor], quotient: Quotient, *, exact: bool
) -> tuple[Tensor, Tensors]:
    """Return GQ, 0-dim, and the constant gradient for each parameter, None for parameters that the loss does not use.

    GQ can be differentiated once, for `parameters` and all other parameters of the model that require a gradient,
    except under `torch.no_grad`. `quotient` returns GQ from g and c, where c is g − Hg if `exact`, otherwise the
    gradient after a step, for which `parameters` must belong to the model.
    """
    over = list(parameters)
    taken = {id(parameter) for parameter in over}
    others = [parameter for parameter in trainable_parameters(model) if id(parameter) not in taken]
    with forgetful(model), torch.no_grad():
        gradients = accumulated(loss_gradients(loss_of(model), over, create_graph=False) for loss_of in losses)
        form = _exact if exact else _finite_difference
        value, derivative = form(model, losses, over, others, gradients, quotient)
    if not torch.is_grad_enabled():
        return value, gradients
    differentiable: Tensor = _Value.apply(derivative, value, *over, *others)
    return differentiable, gradients


class _Value(Function):
    """A known value whose derivative is computed on demand."""

    @staticmethod
    def forward(ctx: Any, derivative: Derivative, value: Tensor, *tensors: Tensor) -> Tensor:
        ctx.derivative = derivative
        ctx.save_for_backward(*tensors)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Any, ...]:
        _ = ctx.saved_tensors  # raises an error if a parameter was changed in between
        return None, None, *(None if part is None else scale * part for part in ctx.derivative())


def _exact(
    model: nn.Module,
    losses: Sequence[LossOf],
    over: list[Tensor],
    others: list[Tensor],
    gradients: Tensors,
    quotient: Quotient,
) -> tuple[Tensor, Derivative]:
    products = accumulated(_products(loss_of(model), over, gradients, over) for loss_of in losses)
    g, hg = flatten(gradients, over), flatten(products, over)
    value = quotient(g, g - hg)

    def third_derivative(loss: Tensor, first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensors:
        """Return the derivative of ⟨gᵢ, first⟩ + ⟨Hᵢ·stop(g), second⟩."""
        own = loss_gradients(loss, over)
        own_products = vector_products(own, gradients, over, create_graph=True)
        return vector_products([*own, *own_products], [*first, *second], [*over, *others])

    def derivative() -> Tensors:
        a, b = _slopes(lambda g, hg: quotient(g, g - hg), g, hg)
        with forgetful(model):
            second = unflatten(b, over)
            hb = accumulated(_products(loss_of(model), over, second, over) for loss_of in losses)
            first = unflatten(a + flatten(hb, over), over)
            return accumulated(third_derivative(loss_of(model), first, second) for loss_of in losses)

    return value, derivative


def _finite_difference(
    model: nn.Module,
    losses: Sequence[LossOf],
    over: list[Tensor],
    others: list[Tensor],
    gradients: Tensors,
    quotient: Quotient,
) -> tuple[Tensor, Derivative]:
    pairs = zip(over, gradients, strict=True)
    moved = [(p if g is None else p - g).detach().requires_grad_() for p, g in pairs]
    after = forward_at(model, over, moved)
    changed = accumulated(loss_gradients(loss_of(after), moved, create_graph=False) for loss_of in losses)
    g, c = flatten(gradients, over), flatten(changed, over)
    value = quotient(g, c)

    def derivative() -> Tensors:
        a, b = _slopes(quotient, g, c)
        vectors, wanted = unflatten(b, over), [*moved, *others]
        with forgetful(model):
            there = accumulated(_products(loss_of(after), moved, vectors, wanted) for loss_of in losses)
            first = unflatten(a - flatten(there[: len(over)], over), over)
            here = accumulated(_products(loss_of(model), over, first, [*over, *others]) for loss_of in losses)
        return accumulated([there, here])

    return value, derivative


def _products(loss: Tensor, over: Sequence[Tensor], vectors: Sequence[Tensor | None], wanted: Sequence[Tensor]) -> Any:
    """Return the derivative of ⟨gradient for `over`, vectors⟩ for each of `wanted`."""
    return vector_products(loss_gradients(loss, over), vectors, wanted)


def _slopes(function: Quotient, *arguments: Tensor) -> tuple[Tensor, Tensor]:
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    with torch.enable_grad():
        first, second = torch.autograd.grad(function(*leaves), leaves)
    return first, second
