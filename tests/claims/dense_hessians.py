"""Dense Hessians and their relatives in float64, as oracles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from measured_nets import Batch
    from torch import nn


def vector_and_loss(model: nn.Module, batch: Batch) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return all parameters as one vector, and the mean cross-entropy as a function of it."""
    theta, outputs = vector_and_outputs(model, batch[0])
    return theta, lambda values: cross_entropy(outputs(values), batch[1])


def vector_and_outputs(model: nn.Module, inputs: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return all parameters as one vector, and the model's outputs as a function of it."""
    parameters = dict(model.named_parameters())
    sizes = [p.numel() for p in parameters.values()]

    def outputs(theta: Tensor) -> Tensor:
        pieces = zip(parameters.items(), theta.split(sizes), strict=True)
        result: Tensor = functional_call(model, {name: piece.view_as(p) for (name, p), piece in pieces}, (inputs,))
        return result

    return torch.cat([p.detach().flatten() for p in parameters.values()]), outputs


def gradient_and_hessian(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return g, (N,), and H, (N, N), of the mean cross-entropy over all parameters."""
    theta, loss = vector_and_loss(model, batch)
    gradient = torch.func.grad(loss)
    return gradient(theta), torch.func.jacrev(gradient)(theta)
