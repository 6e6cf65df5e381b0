"""A model's forward pass as a function of its parameters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torch.func import functional_call

from initbench.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor, nn


def functional(model: nn.Module) -> Callable[[Mapping[str, Tensor]], Callable[[Tensor], Tensor]]:
    """Return a function from tensors to the model's forward pass with these in place of parameters.

    The tensors are given by the parameters' names, of tied ones by the first, whose tensor stands for all; a parameter
    that is not among them is the model's own. The model is the same before and after a pass.

    Args:
        model: whose parameters keep their places from now on.
    """
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    # `functional_call` knows ties too, but what it leaves in a module that a model has under two names is the tensors.
    places = {
        f"{prefix}.{name}".removeprefix("."): first[id(parameter)]
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
    }

    def forward_with(values: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        placed = {place: values[name] for place, name in places.items() if name in values}
        return partial(functional_call, model, placed, tie_weights=False)

    return forward_with


def forward_at(model: nn.Module, parameters: Sequence[Tensor], values: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the model's forward pass with other values in the place of some of its parameters.

    Args:
        model: whose parameters they are.
        parameters: which are replaced.
        values: what stands for each.

    Raises:
        ArgumentError: one of `parameters` is not the model's.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if any(id(parameter) not in names for parameter in parameters):
        raise ArgumentError("must belong to the model for method finite_difference", "parameters")
    return functional(model)({names[id(p)]: value for p, value in zip(parameters, values, strict=True)})
