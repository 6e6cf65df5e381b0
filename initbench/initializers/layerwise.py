"""Visiting a model's layers in the order in which they run."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from initbench.models.user_code import running_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LayerT = TypeVar("LayerT", bound=nn.Module)


@torch.no_grad()
def run_visiting(
    model: nn.Module,
    inputs: Tensor,
    layers: Mapping[str, LayerT],
    visit: Callable[[str, LayerT, tuple[Any, ...], Tensor], Tensor | None],
) -> None:
    """Run the model once, without gradients, and call `visit` for each of its layers that has just run.

    Args:
        model: in the mode it is to run in.
        inputs: are not written into.
        layers: by name.
        visit: from the layer's name, the layer, its inputs and its outputs; what it returns, if not None, replaces
            the outputs. A layer that runs twice is visited twice.

    Raises:
        InitializationError: the model raises an exception, which is then the cause of this one.
    """
    hooks = [layer.register_forward_hook(partial(visit, name)) for name, layer in layers.items()]
    try:
        with running_on(inputs):
            model(inputs.clone())  # the model may write into them
    finally:
        for hook in hooks:
            hook.remove()
