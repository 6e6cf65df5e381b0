"""The gradient quotient (GQ): how much the gradient changes, relative to itself, over one step of gradient descent.

Dauphin & Schoenholz, "MetaInit: Initializing learning by learning to initialize", NeurIPS 2019, equation (1) and the
listing of Figure 2.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from initbench.architectures.beta_swish import closed_form_derivatives
from initbench.errors import ArgumentError, InitializationError
from initbench.probes.batches import DataKind, LossFunction, move, reference_parameter
from initbench.probes.checks import check_count, check_positive
from initbench.probes.context import Measure, ProbeContext, median
from initbench.probes.convolution import FirstDerivativeKernels
from initbench.probes.functional import functional
from initbench.probes.measurement import Scalar
from initbench.probes.state import forked_rng, preserved
from initbench.probes.user_code import explained, mean_loss
from initbench.registry import register_probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Norm = Literal["l1", "l2"]
Method = Literal["exact", "finite_difference"]
_DTYPES = {torch.float32, torch.float64}
REFERENCE = "Dauphin & Schoenholz, MetaInit, NeurIPS 2019"


def gradient_quotient(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    loss_fn: LossFunction = F.cross_entropy,
    eps: float = 1e-5,
    parameters: Iterable[Tensor] | None = None,
    norm: Norm = "l1",
    method: Method = "exact",
) -> Tensor:
    """Return GQ = 1/N ‖(g − Hg) / (g + ε) − 1‖ of a model's loss on one batch, 0-dim.

    g is the gradient, H the Hessian, N the number of entries of g, and ε has the size `eps` and the sign of each
    entry of g (+ at 0). A loss that is linear in the parameters gives about 0. An entry with g = 0 and
    (Hg) = 0 adds exactly 1, as every parameter that the loss does not use. GQ grows without bound, slowly, as `eps`
    shrinks; where |g| < `eps` it tends to 1 whatever the curvature (see `fraction_below_epsilon`).

    The model is measured in the mode it is in; in train mode its forward pass changes BatchNorm's running statistics.
    The exact method costs about three gradients (reverse mode over reverse mode). The result is differentiable unless
    it is taken under `torch.no_grad`, which costs less.

    Args:
        model: its parameters are float32 or float64.
        inputs: (batch, ...), on the model's device.
        targets: what `loss_fn` takes.
        loss_fn: returns the mean loss, 0-dim, from (outputs, targets).
        eps: ε0 of equation (1).
        parameters: the tensors that g and H are taken over; by default every parameter that requires a gradient.
        norm: ``l1`` as in equation (1), or ``l2``: the L2 norm in its place, still divided by N (Figure 4).
        method: ``exact`` is the left side of equation (1); ``finite_difference`` its right side, where g(θ − g(θ))
            stands for g − Hg. They are equal for a quadratic loss.

    Raises:
        ArgumentError: `eps`, `norm` or `method` is none of the above.
        ArgumentError: `parameters` or the loss is none of the above.
    """
    check_positive("eps", eps)
    over = trainable_parameters(model) if parameters is None else list(parameters)
    check_parameters(over)
    loss_of = partial(batch_loss, inputs=inputs, targets=targets, loss_fn=loss_fn)
    gradients = loss_gradients(loss_of(model), over, create_graph=method == "exact" or torch.is_grad_enabled())
    g = flatten(gradients, over)
    if method == "exact":
        products = hessian_products(gradients, over, create_graph=torch.is_grad_enabled())
        return quotient(g, g - flatten(products, over), eps, norm)
    if method == "finite_difference":
        return quotient(g, gradient_after_step(model, loss_of, over, gradients), eps, norm)
    raise ArgumentError(f"must be exact or finite_difference, got {method!r}", "method")


def fraction_below_epsilon(gradient: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the fraction of a gradient's entries with |g| < `eps`, 0-dim.

    There ε dominates the denominator of GQ: an entry adds about 1 unless its curvature is far above ε. Where most
    entries are so, GQ tells that gradients vanish and nothing of curvature.
    """
    return (gradient.abs() < eps).to(gradient.dtype).mean()


def epsilon_floor(gradient: Tensor, eps: float = 1e-5) -> Tensor:
    """Return the GQ that a gradient would have without any curvature, mean ε / (|g| + ε), 0-dim: what ε alone gives."""
    return (eps / (gradient.abs() + eps)).mean()


def trainable_parameters(model: nn.Module) -> list[Tensor]:
    """Return the parameters that require a gradient, tied ones once."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check_parameters(parameters: Sequence[Tensor]) -> None:
    """Raise an ArgumentError unless GQ can be taken over these tensors."""
    if not parameters:
        raise ArgumentError("must hold at least one tensor that requires a gradient, got none", "parameters")
    for tensor in parameters:
        if not tensor.requires_grad:
            raise ArgumentError(
                f"must all require a gradient, one of shape {tuple(tensor.shape)} does not", "parameters"
            )
        if tensor.dtype not in _DTYPES:
            raise ArgumentError(f"must be float32 or float64, got {tensor.dtype}", "parameters")


def differentiable_parameters(model: nn.Module, who: str) -> dict[str, nn.Parameter]:
    """Return the parameters that require a gradient by name, tied ones once.

    Args:
        model: whose parameters.
        who: takes derivatives for them, for messages.

    Raises:
        InitializationError: there are none, or one is neither float32 nor float64.
    """
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not named:
        raise InitializationError(f"{who}: no parameter requires a gradient")
    for name, parameter in named.items():
        if parameter.dtype not in _DTYPES:
            dtype = str(parameter.dtype).removeprefix("torch.")
            raise InitializationError(f"{who}: {name} is {dtype}, and must be float32 or float64: see model.float()")
    return named


def batch_loss(model: Callable[[Tensor], Tensor], inputs: Tensor, targets: Tensor, loss_fn: LossFunction) -> Tensor:
    """Return the loss of one batch, 0-dim, ready to be differentiated twice; raise what `mean_loss` raises."""
    # The fused kernels of attention have no second derivative; PyTorch's "math" one is made of parts that have.
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), FirstDerivativeKernels(), closed_form_derivatives():
        return mean_loss(model, (inputs, targets), loss_fn)


def loss_gradients(loss: Tensor, parameters: Sequence[Tensor], *, create_graph: bool = True) -> list[Tensor | None]:
    """Return the gradient for each parameter, None for those that the loss does not use."""
    return _differentiate([loss], parameters, None, create_graph=create_graph)


def hessian_products(
    gradients: Sequence[Tensor | None], parameters: Sequence[Tensor], *, create_graph: bool = True
) -> list[Tensor | None]:
    """Return Hg for each parameter, None where it is zero because no gradient depends on the parameter.

    Args:
        gradients: g, made with `create_graph`. With `create_graph` here the result is differentiable, through both H
            and g.
        parameters: what g was taken over.
        create_graph: see above.
    """
    # Gradients that are constant (where the loss is linear in a parameter) have no graph and add nothing to Hg.
    outputs = [g for g in gradients if g is not None and g.requires_grad]
    return _differentiate(outputs, parameters, outputs, create_graph=create_graph)


def _differentiate(
    outputs: Sequence[Tensor], parameters: Sequence[Tensor], weights: Sequence[Tensor] | None, *, create_graph: bool
) -> list[Tensor | None]:
    if not any(output.requires_grad for output in outputs):
        return [None] * len(parameters)
    with explained("the model or loss_fn cannot be differentiated as often as is needed"):
        return list(torch.autograd.grad(outputs, parameters, weights, create_graph=create_graph, allow_unused=True))


def flatten(tensors: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensor:
    """Return tensors as one vector, zeros standing for None."""
    pairs = zip(tensors, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if t is None else t).flatten() for t, p in pairs])


def quotient(gradient: Tensor, changed: Tensor, eps: float, norm: Norm = "l1") -> Tensor:
    """Return 1/N ‖changed / (g + ε) − 1‖, 0-dim.

    Args:
        gradient: g, a vector.
        changed: g − Hg, or the gradient after a step.
        eps: size of ε; its sign is that of each entry of g, and no derivative is taken through it.
        norm: ``l1`` or ``l2``.

    Raises:
        ArgumentError: no such norm.
    """
    damping = torch.where(gradient >= 0, eps, -eps).to(gradient.dtype)
    residual = changed / (gradient + damping) - 1
    if norm == "l1":
        return residual.abs().mean()
    if norm == "l2":
        length: Tensor = torch.linalg.vector_norm(residual)
        return length / residual.numel()
    raise ArgumentError(f"must be l1 or l2, got {norm!r}", "norm")


def gradient_after_step(
    model: nn.Module,
    loss_of: Callable[[Callable[[Tensor], Tensor]], Tensor],
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
) -> Tensor:
    """Return g(θ − g(θ)) on the same batch, as one vector, differentiable unless under `torch.no_grad`.

    Args:
        model: whose loss it is.
        loss_of: returns the loss of the batch for the model's forward pass.
        parameters: the model's, which g was taken over.
        gradients: g, None for zero; made with `create_graph` where the result is differentiated.

    Raises:
        ArgumentError: one of `parameters` is not the model's.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if any(id(parameter) not in names for parameter in parameters):
        raise ArgumentError("must belong to the model for method finite_difference", "parameters")
    with torch.enable_grad():
        moved = [p if g is None else p - g for p, g in zip(parameters, gradients, strict=True)]
    values = {names[id(parameter)]: value for parameter, value in zip(parameters, moved, strict=True)}
    loss = loss_of(functional(model)(values))
    return flatten(loss_gradients(loss, moved, create_graph=torch.is_grad_enabled()), parameters)


@register_probe("gradient_quotient", 2, smoke={"batch_size": 2, "batches": 2}, reference=REFERENCE)
def gradient_quotient_probe(
    data: DataKind = "random",
    batch_size: int = 32,
    batches: int = 8,
    eps: float = 1e-5,
    mode: Literal["eval", "train"] = "eval",
) -> Measure:
    """Relative change of the gradient over one step of gradient descent (GQ), median over batches.

    The median is taken because single batches have a heavy tail: entries whose gradient is near zero by chance.
    ``saturated`` is true where more than half of the gradient's entries are below ε and more than half of the value
    is what ε alone gives (``epsilon_floor``): it then tells of vanished gradients, not of curvature.

    Args:
        data: ``random`` inputs and targets, or ``real`` ones.
        batch_size: samples per batch.
        batches: number of batches.
        eps: ε0 of equation (1).
        mode: ``eval`` as in the paper's listing (BatchNorm uses its running statistics), or ``train``.

    Raises:
        ArgumentError: a number is out of its range.
    """
    check_count("batch_size", batch_size)
    check_count("batches", batches)
    check_positive("eps", eps)

    def measure(model: nn.Module, context: ProbeContext) -> Scalar:
        like = reference_parameter(model)
        over = trainable_parameters(model)
        check_parameters(over)
        values, fractions, floors = [], [], []
        with preserved(model), forked_rng(model, context.seed, "probe"):
            model.train(mode == "train")
            for batch in context.batches(data, batch_size, batches):
                inputs, targets = move(batch, like)
                gradients = loss_gradients(batch_loss(model, inputs, targets, context.loss), over)
                g = flatten(gradients, over)
                products = flatten(hessian_products(gradients, over, create_graph=False), over)
                values.append(quotient(g, g - products, eps).detach())
                fractions.append(fraction_below_epsilon(g.detach(), eps))
                floors.append(epsilon_floor(g.detach(), eps))
        per_batch = torch.stack(values).tolist()
        value = median(per_batch)
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
            "saturated": fraction > 0.5 and floor > value / 2,
            "per_batch": per_batch,
        }
        return Scalar(value, conditions)

    return measure
