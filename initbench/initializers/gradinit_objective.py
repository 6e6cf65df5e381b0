"""The two objectives of GradInit, on whole batches and with one micro-batch in memory at a time.

The loss is a sum over micro-batches, L = Σ Lᵢ, where each is weighted by its share, and so are its derivatives: g = Σ
gᵢ, and a Hessian product is Hv = Σ ∇⟨gᵢ, v⟩ for any constant v. Each sum is one *pass* over the micro-batches, which
holds one graph at a time. With s(g) the step:

- the gradient norm: ∇‖g‖ = Hu with u = ∂‖g‖/∂g, which is g / ‖g‖₂ or sign(g). One pass for g (1 forward and 1 backward
  pass over the batch), one for Hu (1 + 2).
- the loss after a step: with θ' = θ − η·s(g) and r = ∇L(S̃; θ') / η, if s is a constant, ∇ = r: 1 + 1 for g and 1 + 1
  for r. Otherwise ∇ = r − η·H(∂s/∂g)ᵀr, for 1 + 2 more; (∂s/∂g)ᵀr is (r − s⟨s, r⟩) / ‖g‖₂ for s = g / ‖g‖₂, and 0 for
  sign(g).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from initbench.differentiation.gradients import (
    accumulated,
    flatten,
    functional,
    loss_gradients,
    unflatten,
    vector_products,
)
from initbench.differentiation.loss import differentiable_loss
from initbench.differentiation.micro_batches import MicroBatch, micro_batches
from initbench.initializers.context import InitializationContext
from initbench.models.batches import Batch
from initbench.models.calls import mean_loss


class Objective:
    """The two objectives and their derivatives with respect to the parameters, at their current values.

    `costs_more` says whether a differentiable gradient costs more than a constant one. Forward and backward passes over
    a batch are counted.
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
        """Return the gradient by name, without the parameters that the loss does not use, and its norm, 0-dim."""
        self.forward_passes += 1
        if differentiable:
            loss = differentiable_loss(self._model, *batch, self._loss_fn)
        else:
            loss = mean_loss(self._model, batch, self._loss_fn)
        gradients = self._differentiate(loss, create_graph=differentiable)
        norm = self._norm(flatten(gradients, list(self._trainable.values())))
        return {n: g for n, g in zip(self._trainable, gradients, strict=True) if g is not None}, norm

    def of_gradient_norm(self, norm: Tensor) -> list[Tensor | None]:
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
        step = {name: part / norm if self._form == "sgd" else part.sign() for name, part in g.items()}
        return {name: p - self._eta * step[name] if name in step else p for name, p in self._trainable.items()}

    def _differentiate(self, value: Tensor, *, create_graph: bool = False) -> list[Tensor | None]:
        self.backward_passes += 1
        return loss_gradients(value, list(self._trainable.values()), create_graph=create_graph)


class MicroBatchedObjective(Objective):
    """The two objectives and their derivatives, with one micro-batch in memory at a time."""

    costs_more = False  # second derivatives take a separate pass, and only if needed

    def __init__(
        self,
        model: nn.Module,
        trainable: dict[str, nn.Parameter],
        context: InitializationContext,
        form: str,
        eta: float,
        micro_batch_size: int,
        *,
        second_order: bool,
    ) -> None:
        super().__init__(model, trainable, context, form, eta)
        self._size, self._second_order = micro_batch_size, second_order
        self._parameters: list[Tensor] = list(trainable.values())
        self._parts: list[MicroBatch] = []  # of the batch of g
        self._g = torch.empty(0)

    def gradient(self, batch: Batch, *, differentiable: bool) -> tuple[dict[str, Tensor], Tensor]:
        """Return the gradient by name, without the parameters that the loss does not use, and its norm, 0-dim.

        Both are constants; the two objectives use the gradient of the latest call.
        """
        self._parts = micro_batches(self._model, batch, self._loss_fn, self._size)
        self._count(1, 1)
        gradients = accumulated(map(self._gradient_of, self._parts))
        self._g = flatten(gradients, self._parameters)
        return {n: g for n, g in zip(self._trainable, gradients, strict=True) if g is not None}, self._norm(self._g)

    def of_gradient_norm(self, norm: Tensor) -> list[Tensor | None]:
        return self._hessian_product(self._g / norm if self._form == "sgd" else self._g.sign())

    def of_loss(self, g: dict[str, Tensor], norm: Tensor, batch: Batch) -> tuple[Tensor, list[Tensor | None]]:
        """Return L(batch; θ − η·step(g)) / η, 0-dim, and its derivatives."""
        with torch.no_grad():
            moved = self._moved(g, norm)
        leaves = {name: value.detach().requires_grad_() for name, value in moved.items()}
        forward = self._forward_with(leaves)
        self._count(1, 1)
        value = torch.zeros_like(norm)

        def slopes_of(part: MicroBatch) -> list[Tensor | None]:
            loss = part.share * mean_loss(forward, part.batch, self._loss_fn) / self._eta
            value.add_(loss.detach())
            return loss_gradients(loss, list(leaves.values()), create_graph=False)

        slopes = accumulated(map(slopes_of, micro_batches(self._model, batch, self._loss_fn, self._size)))
        if self._second_order and self._form == "sgd":
            r, step = flatten(slopes, self._parameters), self._g / norm
            slopes = accumulated([slopes, self._hessian_product(-self._eta * (r - step * (step @ r)) / norm)])
        return value, slopes

    def _hessian_product(self, vector: Tensor) -> list[Tensor | None]:
        """Return H times a vector for each parameter, with H from the batch of g."""
        self._count(1, 2)
        vectors = unflatten(vector, self._parameters)

        def product_of(part: MicroBatch) -> list[Tensor | None]:
            loss = part.share * differentiable_loss(self._model, part.inputs, part.targets, self._loss_fn)
            return vector_products(loss_gradients(loss, self._parameters), vectors, self._parameters)

        return accumulated(map(product_of, self._parts))

    def _gradient_of(self, part: MicroBatch) -> list[Tensor | None]:
        loss = part.share * mean_loss(self._model, part.batch, self._loss_fn)
        return loss_gradients(loss, self._parameters, create_graph=False)

    def _count(self, forward: int, backward: int) -> None:
        self.forward_passes += forward
        self.backward_passes += backward
