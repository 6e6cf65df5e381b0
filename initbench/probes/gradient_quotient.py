"""The gradient quotient (GQ): how much the gradient changes, relative to itself, over one step of gradient descent.

Dauphin & Schoenholz, "MetaInit: Initializing learning by learning to initialize", NeurIPS 2019, equation (1) and the
listing of Figure 2.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from initbench.arguments import check_counts, check_positive
from initbench.differentiation.gradients import (
    accumulated,
    check_parameters,
    filled,
    flatten,
    forward_at,
    hessian_products,
    loss_gradients,
    trainable_parameters,
    unflatten,
    vector_products,
)
from initbench.differentiation.micro_batches import LossOf, losses_of
from initbench.errors import ArgumentError
from initbench.models.batches import LossFunction, move, reference_parameter
from initbench.models.kernels import float32_products
from initbench.models.state import forgetful, forked_rng, preserved
from initbench.probes.context import Measure, ProbeContext, median
from initbench.probes.measurement import Scalar
from initbench.registry import register_probe
from initbench.registry.traits import DataKind

VectorNorm = Literal["l1", "l2"]
Method = Literal["exact", "finite_difference"]
REFERENCE = "Dauphin & Schoenholz, MetaInit, NeurIPS 2019"
Tensors = list[Tensor | None]
Quotient = Callable[[Tensor, Tensor], Tensor]
"""GQ from g and c, two vectors."""
Derivative = Callable[[], Tensors]


@float32_products()
def gradient_quotient(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss_fn: LossFunction = F.cross_entropy,
    eps: float = 1e-5,
    parameters: Iterable[Tensor] | None = None,
    norm: VectorNorm = "l1",
    method: Method = "exact",
    micro_batch_size: int | None = None,
) -> Tensor:
    """Return GQ = 1/N ‖(g − Hg) / (g + ε) − 1‖ of a model's loss on one batch, 0-dim.

    g is the gradient, H the Hessian, N the number of entries of g, and ε has the size `eps` and the sign of each entry
    of g (+ at 0). A loss that is linear in the parameters gives about 0. An entry with g = 0 and (Hg) = 0 adds exactly
    1, as does every entry of a parameter that the loss does not use. GQ grows slowly and without bound as `eps`
    shrinks; if |g| < `eps` it tends to 1 whatever the curvature (see `fraction_below_epsilon`). A value that shows only
    vanishing gradients comes with a UserWarning (see `is_saturated`): near 1, it does not mean a smooth start.

    The model is measured in its current mode; in train mode the forward pass changes BatchNorm's running statistics.
    The exact method costs about three gradients (reverse mode over reverse mode). The result is differentiable except
    under `torch.no_grad`, which costs less.

    Args:
        model: its parameters are float32 or float64.
        inputs: (batch, ...), on the model's device.
        targets: second argument of `loss_fn`.
        loss_fn: returns the mean loss, 0-dim, from (outputs, targets).
        eps: ε0 of equation (1).
        parameters: the tensors that g and H are taken over; by default every parameter that requires a gradient.
        norm: ``l1`` as in equation (1), or ``l2``: the L2 norm instead, still divided by N (Figure 4).
        method: ``exact`` is the left side of equation (1); ``finite_difference`` its right side, with g(θ − g(θ))
            instead of g − Hg. They are equal for a quadratic loss.
        micro_batch_size: samples in memory at a time, if a batch does not fit; None for all. The quotient is the same
            up to rounding, and so is its derivative, which exists only for parameters and cannot be differentiated
            again. The loss must be a mean over samples that are treated separately (with integer targets, over those
            that are not -100): BatchNorm and dropout in training mode are refused. It costs about four gradients.

    Raises:
        ArgumentError: `eps`, `norm` or `method` has none of the values above.
        ArgumentError: `parameters` or the loss is not as described, or does not work with micro-batches.
    """
    check_positive(eps=eps)
    over = trainable_parameters(model) if parameters is None else list(parameters)
    check_parameters(over)
    third = torch.is_grad_enabled()  # for the derivative of the result
    if micro_batch_size is not None and third and inputs.requires_grad:
        raise ArgumentError("gives no derivative for inputs, which require one: detach them", "micro_batch_size")
    losses = losses_of(model, (inputs, targets), loss_fn, micro_batch_size, third=third)
    value, gradients = quotient_and_gradients(model, losses, over, eps, norm, method)
    if not value.is_meta:
        _warn_if_saturated(value.detach().item(), flatten(gradients, over), eps, norm)
    return value


def _warn_if_saturated(value: float, gradient: Tensor, eps: float, norm: VectorNorm) -> None:
    with torch.no_grad():
        fraction = float(fraction_below_epsilon(gradient, eps))
        floor = float(_quotient(gradient, gradient, eps, norm))  # without curvature, see `epsilon_floor`
    if is_saturated(value, fraction, floor):
        warnings.warn(
            f"the gradient quotient is saturated: {fraction:.0%} of the gradient's entries are below eps = {eps:g}, "
            f"which alone gives {floor:.3g} of {value:.3g}: it shows vanishing gradients, not curvature",
            stacklevel=4,
        )


def quotient_and_gradients(
    model: nn.Module,
    losses: Sequence[LossOf],
    parameters: Sequence[Tensor],
    eps: float,
    norm: VectorNorm = "l1",
    method: Method = "exact",
) -> tuple[Tensor, list[Tensor | None]]:
    """Return GQ, 0-dim, and the gradient for each parameter, None for parameters that the loss does not use.

    GQ is differentiable except under `torch.no_grad`. `losses` is one function that returns the batch's loss from the
    model's forward pass, or several that add up to it (see `losses_of`) and are in memory one at a time. For finite
    differences all parameters must belong to the model. See `gradient_quotient` for `eps`, `norm` and `method`.
    """
    if method not in {"exact", "finite_difference"}:
        raise ArgumentError(f"must be exact or finite_difference, got {method!r}", "method")
    if len(losses) > 1:
        quotient = partial(_quotient, eps=eps, norm=norm)
        return micro_batched_quotient(model, losses, parameters, quotient, exact=method == "exact")
    loss_of = losses[0]
    gradients = loss_gradients(loss_of(model), parameters, create_graph=method == "exact" or torch.is_grad_enabled())
    if method == "finite_difference":
        changed = _gradient_after_step(model, loss_of, parameters, gradients)
        return _quotient(flatten(gradients, parameters), changed, eps, norm), gradients
    products = hessian_products(gradients, parameters, create_graph=torch.is_grad_enabled())
    if torch.is_grad_enabled() or parameters[0].device.type != "cpu":
        g = flatten(gradients, parameters)
        return _quotient(g, g - flatten(products, parameters), eps, norm), gradients
    # If all have one dtype the numbers are the same tensor by tensor, and each stays in the processor's cache. A GPU
    # would launch more kernels.
    pairs = zip(filled(gradients, parameters), filled(products, parameters), strict=True)
    return _length(torch.cat([_residual(g, g - product, eps).flatten() for g, product in pairs]), norm), gradients


def fraction_below_epsilon(gradient: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the fraction of a gradient's entries with |g| < `eps`, 0-dim.

    For these entries ε dominates the denominator of GQ: each adds about 1 unless its curvature is far above ε. If they
    are the majority, GQ shows vanishing gradients and says nothing about curvature.
    """
    return (gradient.abs() < eps).to(gradient.dtype).mean()


def epsilon_floor(gradient: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the GQ that a gradient would have without any curvature, because of ε alone: mean ε / (|g| + ε), 0-dim."""
    return (eps / (gradient.abs() + eps)).mean()


def is_saturated(value: float, fraction_below_epsilon: float, epsilon_floor: float) -> bool:
    """Return whether a GQ shows vanishing gradients instead of curvature.

    That is, more than half of the gradient's entries are below ε, and ε alone explains more than half of the value.
    """
    return fraction_below_epsilon > 0.5 and epsilon_floor > value / 2


def _quotient(gradient: Tensor, changed: Tensor, eps: float, norm: VectorNorm = "l1") -> Tensor:
    """Return 1/N ‖changed / (g + ε) − 1‖, 0-dim, where `changed` is g − Hg or the gradient after a step."""
    return _length(_residual(gradient, changed, eps), norm)


def _residual(gradient: Tensor, changed: Tensor, eps: float) -> Tensor:
    """Return changed / (g + ε) − 1; ε has the sign of each entry of g, and no derivative is taken through it."""
    # In place: with as many entries as parameters, new memory takes as long as the arithmetic. No `torch.where` for ±ε,
    # because it takes twice as long.
    signed = (gradient >= 0).to(torch.get_default_dtype()).mul_(2 * eps).sub_(eps)
    damped = signed.to(gradient.dtype).add_(gradient)
    return (changed / damped).sub_(1)


def _length(residual: Tensor, norm: VectorNorm) -> Tensor:
    """Return 1/N ‖residual‖, 0-dim."""
    if norm == "l1":
        return residual.abs().mean()
    if norm == "l2":
        length: Tensor = torch.linalg.vector_norm(residual)
        return length / residual.numel()
    raise ArgumentError(f"must be l1 or l2, got {norm!r}", "norm")


def _gradient_after_step(
    model: nn.Module,
    loss_of: LossOf,
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
) -> Tensor:
    """Return g(θ − g(θ)) on the same batch, as one vector, differentiable except under `torch.no_grad`.

    If the result is to be differentiated, g must be made with `create_graph`.
    """
    with torch.enable_grad():
        moved = [p if g is None else p - g for p, g in zip(parameters, gradients, strict=True)]
    loss = loss_of(forward_at(model, parameters, moved))
    return flatten(loss_gradients(loss, moved, create_graph=torch.is_grad_enabled()), parameters)


def micro_batched_quotient(
    model: nn.Module, losses: Sequence[LossOf], parameters: Sequence[Tensor], quotient: Quotient, *, exact: bool
) -> tuple[Tensor, Tensors]:
    """Return GQ, 0-dim, and the constant gradient for each parameter, None for parameters that the loss does not use.

    GQ can be differentiated once, for `parameters` and all other parameters of the model that require a gradient,
    except under `torch.no_grad`. `quotient` returns GQ from g and c, where c is g − Hg if `exact`, otherwise the
    gradient after a step, for which `parameters` must belong to the model.

    The loss is a sum over micro-batches, L = Σ Lᵢ, where each is weighted by its share, and so are its derivatives:
    with g = Σ gᵢ a Hessian product is Hv = Σ ∇⟨gᵢ, v⟩ for any constant v. Each sum is one *pass* over the
    micro-batches, which holds one graph at a time; everything else is a vector as large as the parameters. The quotient
    is q(g, c), where c = g − Hg, or g after a step in finite differences; a = ∂q/∂g, and b = ∂q/∂(Hg) or ∂q/∂c, follow
    from g and c.

    exact: dq = ⟨a, dg⟩ + ⟨b, d(Hg)⟩ and d(Hg) = (dH)g + H dg, where dg = H dθ, so that

        ∇q = H(a + Hb) + ∇⟨b, H·stop(g)⟩

    1. g; 2. Hg, and q; 3. Hb; 4. the derivative of ⟨gᵢ, a + Hb⟩ + ⟨Hᵢ·stop(g), b⟩, a third derivative of the loss. In
    forward and backward passes over the batch: 1 + 1, 1 + 2, 1 + 2, 1 + 3. The value takes 2 + 3, with its derivative 4
    + 8; on the whole batch at once they take 1 + 2 and 1 + 3.

    finite differences: with θ' = θ − g(θ), c = g(θ') and H' = H(θ'), dc = H'(dθ − dg), so that

        ∇q = H(a − H'b) + H'b

    1. g; 2. c, and q; 3. H'b; 4. H(a − H'b): the value takes 2 + 2 passes, with its derivative 4 + 6; on the whole
    batch at once they take 2 + 2 and 2 + 3.

    For a parameter that g is not taken over, only the last derivative of each product differs: it is taken for that
    parameter.
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
        batch_gradients = loss_gradients(loss, over)
        batch_products = vector_products(batch_gradients, gradients, over, create_graph=True)
        return vector_products([*batch_gradients, *batch_products], [*first, *second], [*over, *others])

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


@register_probe("gradient_quotient", 3, smoke={"batch_size": 2, "batches": 2}, reference=REFERENCE)
def gradient_quotient_probe(
    data: DataKind = "random",
    batch_size: int = 32,
    batches: int = 8,
    eps: float = 1e-5,
    mode: Literal["eval", "train"] = "eval",
    micro_batch_size: int | None = None,
) -> Measure:
    """Relative change of the gradient over one step of gradient descent (GQ), median over batches.

    The median is used because single batches are heavy-tailed: some entries have a gradient near zero by chance.
    ``saturated`` is true if more than half of the gradient's entries are below ε and ε alone explains more than half of
    the value (``epsilon_floor``): it then shows vanishing gradients, not curvature.

    Args:
        data: ``random`` inputs and targets, or ``real`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        eps: ε0 of equation (1).
        mode: ``eval`` as in the paper's listing (BatchNorm uses its running statistics), or ``train``.
        micro_batch_size: samples in memory at a time; null for the whole batch. The value is the same up to rounding
            and costs about four gradients instead of three. BatchNorm and dropout in mode ``train`` are refused.

    Raises:
        ArgumentError: a number is out of range.
    """
    check_counts(batch_size=batch_size, batches=batches)
    check_positive(eps=eps)
    check_counts(micro_batch_size=micro_batch_size)

    def measure(model: nn.Module, context: ProbeContext) -> Scalar:
        like = reference_parameter(model)
        over = trainable_parameters(model)
        check_parameters(over)
        values, fractions, floors = [], [], []
        with preserved(model), forked_rng(model, context.seed, "probe"), torch.no_grad():
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                losses = losses_of(model, move(batch, like), context.loss, micro_batch_size, context.weight)
                value, gradients = quotient_and_gradients(model, losses, over, eps)
                g = flatten(gradients, over)
                values.append(value)
                fractions.append(fraction_below_epsilon(g, eps))
                floors.append(epsilon_floor(g, eps))
        per_batch = torch.stack(values).tolist()
        middle = median(per_batch)
        fraction, floor = float(torch.stack(fractions).mean()), median(torch.stack(floors).tolist())
        conditions = {
            "data": data,
            "batch_size": batch_size,
            "batches": batches,
            "eps": eps,
            "mode": mode,
            "norm": "l1",
            "method": "exact",
            "fraction_below_epsilon": fraction,
            "epsilon_floor": floor,
            "saturated": is_saturated(middle, fraction, floor),
            "per_batch": per_batch,
        }
        if micro_batch_size is not None:
            conditions["micro_batch_size"] = micro_batch_size
        return Scalar(middle, conditions)

    return measure
