"""A model's forward pass as a function of its parameters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torch.func import functional_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn


def forward_with(model: nn.Module, values: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a model's forward pass with other tensors in place of parameters.

    Args:
        model: is the same before and after a pass.
        values: by the parameters' names, of tied ones the first, whose tensor stands for all.
    """
    by_id = {id(parameter): values[name] for name, parameter in model.named_parameters() if name in values}
    # `functional_call` knows ties too, but what it leaves in a module that a model has under two names is the tensors.
    places = {
        f"{prefix}.{name}".removeprefix("."): by_id[id(parameter)]
        for prefix, module in model.named_modules()
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
        if id(parameter) in by_id
    }
    return partial(functional_call, model, places, tie_weights=False)
