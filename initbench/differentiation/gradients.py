"""Gradients of a loss and products with its Hessian, over the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from initbench.errors import ArgumentError, InitializationError
from initbench.models.calls import explained


def functional(model: nn.Module) -> Callable[[Mapping[str, Tensor]], Callable[[Tensor], Tensor]]:
    """Return a function from tensors to the model's forward pass with these tensors instead of parameters.

    The tensors are given by the parameters' names; a tied parameter has its first name. Missing
    parameters are the model's own. A pass leaves the model unchanged, and its parameters must stay in their modules.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    # `functional_call` also handles ties, but leaves the tensors in a module that the model has under two names.
    aliases = {
        f"{prefix}.{name}".removeprefix("."): first[id(parameter)]
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
    }

    def forward_with(values: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        tensors = {alias: values[name] for alias, name in aliases.items() if name in values}
        return partial(functional_call, model, tensors, tie_weights=False)

    return forward_with


def forward_at(model: nn.Module, parameters: Sequence[Tensor], values: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the model's forward pass with `values` instead of `parameters`, which must belong to the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if any(id(parameter) not in names for parameter in parameters):
        raise ArgumentError("must belong to the model for method finite_difference", "parameters")
    return functional(model)({names[id(p)]: value for p, value in zip(parameters, values, strict=True)})


_DTYPES = {torch.float32, torch.float64}


def trainable_parameters(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def check_parameters(parameters: Sequence[Tensor]) -> None:
    """Raise an ArgumentError unless GQ can be taken over these tensors."""
    if not parameters:
        raise ArgumentError("must hold at least one tensor that requires a gradient, got none", "parameters")
    for tensor in parameters:
        if not tensor.requires_grad:
            raise ArgumentError(
                f"must all require a gradient, but one of shape {tuple(tensor.shape)} does not", "parameters"
            )
        if tensor.dtype not in _DTYPES:
            raise ArgumentError(f"must be float32 or float64, got {tensor.dtype}", "parameters")


def differentiable_parameters(model: nn.Module, who: str) -> dict[str, nn.Parameter]:
    """Return the parameters that require a gradient by name, tied ones once."""
    named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not named:
        raise InitializationError(f"{who}: no parameter requires a gradient")
    for name, parameter in named.items():
        if parameter.dtype not in _DTYPES:
            dtype = str(parameter.dtype).removeprefix("torch.")
            raise InitializationError(f"{who}: {name} is {dtype}, but must be float32 or float64: see model.float()")
    return named


def backward(loss: Tensor, *, retain_graph: bool = False) -> None:
    """Differentiate a loss for everything that it depends on and that requires a gradient, which tensor hooks need."""
    with explained("the model or loss_fn cannot be differentiated"):
        loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]


def loss_gradients(loss: Tensor, parameters: Sequence[Tensor], *, create_graph: bool = True) -> list[Tensor | None]:
    """Return the gradient for each parameter, None for parameters that the loss does not use."""
    return _differentiate([loss], parameters, None, create_graph=create_graph)


def hessian_products(
    gradients: Sequence[Tensor | None], parameters: Sequence[Tensor], *, create_graph: bool = True
) -> list[Tensor | None]:
    """Return Hg for each parameter, None if it is zero because no gradient depends on the parameter.

    g must be made with `create_graph`. With `create_graph` here the result is differentiable, through both H and g.
    """
    return vector_products(gradients, gradients, parameters, create_graph=create_graph)


def vector_products(
    tensors: Sequence[Tensor | None],
    vectors: Sequence[Tensor | None],
    parameters: Sequence[Tensor],
    *,
    create_graph: bool = False,
) -> list[Tensor | None]:
    """Return the derivative of Σ ⟨tensor, vector⟩ for each parameter, None if no tensor depends on it.

    For gradients, which must be made with `create_graph`, it is Hv because H is symmetric. None among tensors and
    vectors counts as zeros.
    """
    # A constant gradient (if the loss is linear in a parameter) has no graph and adds nothing.
    pairs = zip(tensors, vectors, strict=True)
    kept = [(t, v) for t, v in pairs if t is not None and v is not None and t.requires_grad]
    return _differentiate([t for t, _ in kept], parameters, [v for _, v in kept], create_graph=create_graph)


def flatten(tensors: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensor:
    """Return tensors as one vector, with zeros for None."""
    return torch.cat([tensor.flatten() for tensor in filled(tensors, parameters)])


def filled(tensors: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors with zeros for None."""
    return [torch.zeros_like(p) if t is None else t for t, p in zip(tensors, parameters, strict=True)]


def unflatten(vector: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of a vector in the shapes of the parameters, the inverse of `flatten`."""
    parts = torch.split(vector, [p.numel() for p in parameters])
    return [part.view_as(p) for part, p in zip(parts, parameters, strict=True)]


def _differentiate(
    outputs: Sequence[Tensor], parameters: Sequence[Tensor], weights: Sequence[Tensor] | None, *, create_graph: bool
) -> list[Tensor | None]:
    if not any(output.requires_grad for output in outputs):
        return [None] * len(parameters)
    with explained("the model or loss_fn cannot be differentiated as often as needed"):
        return list(torch.autograd.grad(outputs, parameters, weights, create_graph=create_graph, allow_unused=True))


def accumulated(parts: Iterable[Sequence[Tensor | None]]) -> list[Tensor | None]:
    """Return the sum of lists of tensors, entry by entry; None if all are None.

    A generator `parts` makes the next list, with its graph, only after the previous list was added.
    """
    total: list[Tensor | None] = []
    for part in parts:
        if not total:
            total = [None] * len(part)
        pairs = zip(total, part, strict=True)
        # Not in place, because derivatives may share memory.
        total = [new if old is None else old if new is None else old + new for old, new in pairs]
    return total
