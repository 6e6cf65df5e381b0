"""The two objectives of GradInit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from initbench.differentiation.functional import functional
from initbench.differentiation.gradients import flatten, loss_gradients
from initbench.differentiation.loss import differentiable_loss
from initbench.models.user_code import mean_loss

if TYPE_CHECKING:
    from initbench.batches import Batch
    from initbench.initializers.context import InitializationContext


class Objective:
    """The two objectives and their derivatives with respect to the parameters.

    Args:
        model: whose parameters are at the point of the derivative.
        trainable: its parameters by name.
        context: gives the loss.
        form: ``sgd`` or ``adam``.
        eta: size of the step.

    Attributes:
        costs_more: whether a gradient that can be differentiated costs more than one that cannot.
        forward_passes: over a batch, so far.
        backward_passes: as well.
    """

    costs_more = True

    def __init__(
        self,
        model: nn.Module,
        trainable: dict[str, nn.Parameter],
        context: InitializationContext,
        form: str,
        eta: float,
    ) -> None:
        self._model, self._trainable = model, trainable
        self._loss_fn = context.loss
        self._forward_with = functional(model)
        self._form, self._eta = form, eta
        self.forward_passes = self.backward_passes = 0

    def gradient(self, batch: Batch, *, differentiable: bool) -> tuple[dict[str, Tensor], Tensor]:
        """Return the gradient by name, without the parameters that the loss does not use, and its norm, 0-dim.

        Args:
            batch: inputs and targets.
            differentiable: whether both can be differentiated.
        """
        self.forward_passes += 1
        if differentiable:
            loss = differentiable_loss(self._model, *batch, self._loss_fn)
        else:
            loss = mean_loss(self._model, batch, self._loss_fn)
        gradients = self._differentiate(loss, create_graph=differentiable)
        norm = self._norm(flatten(gradients, list(self._trainable.values())))
        return {n: g for n, g in zip(self._trainable, gradients, strict=True) if g is not None}, norm

    def of_gradient_norm(self, norm: Tensor) -> list[Tensor | None]:
        """Return the derivatives of ‖g‖."""
        return self._differentiate(norm)

    def of_loss(self, g: dict[str, Tensor], norm: Tensor, batch: Batch) -> tuple[Tensor, list[Tensor | None]]:
        """Return L(batch; θ − η·step(g)) / η, 0-dim, and its derivatives."""
        self.forward_passes += 1
        forward = self._forward_with(self._moved(g, norm))
        value = mean_loss(forward, batch, self._loss_fn) / self._eta
        return value.detach(), self._differentiate(value)

    def _norm(self, gradient: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(gradient, 2 if self._form == "sgd" else 1)
        return norm

    def _moved(self, g: dict[str, Tensor], norm: Tensor) -> dict[str, Tensor]:
        """Return the parameters after the step, by name."""
        step = {name: part / norm if self._form == "sgd" else part.sign() for name, part in g.items()}
        return {name: p - self._eta * step[name] if name in step else p for name, p in self._trainable.items()}

    def _differentiate(self, value: Tensor, *, create_graph: bool = False) -> list[Tensor | None]:
        self.backward_passes += 1
        return loss_gradients(value, list(self._trainable.values()), create_graph=create_graph)
