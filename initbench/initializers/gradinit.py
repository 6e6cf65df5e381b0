"""GradInit: scaling each parameter tensor so that the first training step lowers the loss most.

Zhu, Ni, Xu, Kong, Huang & Goldstein, "GradInit: Learning to initialize neural networks for stable and efficient
training", NeurIPS 2021, Algorithm 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts, check_positive, show
from initbench.differentiation.gradients import (
    accumulated,
    differentiable_parameters,
    flatten,
    functional,
    loss_gradients,
    unflatten,
    vector_products,
)
from initbench.differentiation.loss import differentiable_loss
from initbench.differentiation.micro_batches import MicroBatch, micro_batches
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.gradinit_scales import GRADIENT, LOSS, Scales, SecondMoment, norm_ceilings
from initbench.initializers.record import InitializationRecord
from initbench.models.batches import NOT_FINITE, Batch, is_finite
from initbench.models.calls import explained, mean_loss
from initbench.models.state import evaluate_but_batch_norm
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind
from initbench.tasks.task import Task


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
        self._loss_fn, self._weight = context.loss, context.weight
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
        return torch.linalg.vector_norm(gradient, 2 if self._form == "sgd" else 1)

    def _moved(self, g: dict[str, Tensor], norm: Tensor) -> dict[str, Tensor]:
        step = {name: part / norm if self._form == "sgd" else part.sign() for name, part in g.items()}
        return {name: p - self._eta * step[name] if name in step else p for name, p in self._trainable.items()}

    def _differentiate(self, value: Tensor, *, create_graph: bool = False) -> list[Tensor | None]:
        self.backward_passes += 1
        return loss_gradients(value, list(self._trainable.values()), create_graph=create_graph)


class MicroBatchedObjective(Objective):
    """The two objectives and their derivatives, with one micro-batch in memory at a time.

    The loss is a sum over micro-batches, L = Σ Lᵢ, where each is weighted by its share, and so are its derivatives: g =
    Σ gᵢ, and a Hessian product is Hv = Σ ∇⟨gᵢ, v⟩ for any constant v. Each sum is one *pass* over the micro-batches,
    which holds one graph at a time. With s(g) the step:

    - the gradient norm: ∇‖g‖ = Hu with u = ∂‖g‖/∂g, which is g / ‖g‖₂ or sign(g). One pass for g (1 forward and 1
      backward pass over the batch), one for Hu (1 + 2).
    - the loss after a step: with θ' = θ − η·s(g) and r = ∇L(S̃; θ') / η, if s is a constant, ∇ = r: 1 + 1 for g and 1 +
      1 for r. Otherwise ∇ = r − η·H(∂s/∂g)ᵀr, for 1 + 2 more; (∂s/∂g)ᵀr is (r − s⟨s, r⟩) / ‖g‖₂ for s = g / ‖g‖₂, and 0
      for sign(g).
    """

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
        self._parts = self._split(batch)
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

        slopes = accumulated(map(slopes_of, self._split(batch)))
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

    def _split(self, batch: Batch) -> list[MicroBatch]:
        return micro_batches(self._model, batch, self._loss_fn, self._size, self._weight)

    def _gradient_of(self, part: MicroBatch) -> list[Tensor | None]:
        loss = part.share * mean_loss(self._model, part.batch, self._loss_fn)
        return loss_gradients(loss, self._parameters, create_graph=False)

    def _count(self, forward: int, backward: int) -> None:
        self.forward_passes += forward
        self.backward_passes += backward


_GAMMA = {"sgd": 1.0, "adam": 1000.0}
_NO_STEP = "is the learning rate of the training, which is 0: give gradinit an eta above 0"


def _refuses(arguments: Mapping[str, Any], optimizer: str, lr: float) -> str | None:
    """Return why the scales cannot be learned: at a learning rate of 0 there is no step to look ahead to."""
    return f"eta {_NO_STEP}" if arguments["eta"] is None and lr == 0 else None


@register_initializer(
    "gradinit",
    4,
    data="real",
    reads_optimizer=True,
    refuses=_refuses,
    smoke={"iterations": 3},
    reference="Zhu et al., GradInit, NeurIPS 2021, Algorithm 1",
)
def gradinit(
    base: Initializer | None = Initializer("kaiming", mode="fan_out"),
    iterations: int = 390,
    tau: float = 1e-2,
    gamma: float | Literal["inf"] | None = None,
    eta: float | None = None,
    optimizer: Literal["sgd", "adam"] | None = None,
    second_order: bool = False,
    overlap: float = 0.5,
    floor: float = 0.01,
    clip: float | None = 1.0,
    betas: tuple[float, ...] = (0.9, 0.999),
    second_moment: SecondMoment = "shared",
    norm_ceiling: float | None = None,
    data: DataKind = "real",
    batch_size: int = 64,
    micro_batch_size: int | None = None,
) -> Apply:
    """Learn one scale per parameter tensor so that one step of the training to come lowers the loss most.

    Each iteration draws two half-batches A and B and takes the gradient g of the loss on S = A ∪ B. If ‖g‖ > γ, the
    scales descend ‖g‖; otherwise they descend L(S̃; θ − η·step(g)) / η, the loss after one step on a second batch S̃.
    For SGD the norm is L2 and the step is g / ‖g‖₂, as in all launch scripts of the authors for images; for Adam they
    are L1 and sign(g). The scales follow Adam with derivatives clipped one by one, a first moment per objective and, by
    default, a shared second moment v̂: α ← max(α − τ·m̂ / (√v̂ + 1e-8), floor), for norms at most `norm_ceiling`.
    Tensors of zeros keep their values; a scale that reaches 0, which can happen to a bias, stays there. The model is in
    eval mode meanwhile, except that BatchNorm uses batch statistics.

    This follows the authors' code: the derivative of the loss after the step treats the step as a constant (see
    `second_order`), and that loss is divided by η, unlike in the paper. An iteration costs two backward passes, plus
    one forward pass if ‖g‖ is descended or two if the loss is; when ‖g‖ rises from below γ / 2 to above γ, one more of
    each. The defaults are the authors' for VGG-19 without BatchNorm on CIFAR-10 (appendix A.1): an epoch of batches of
    128, each made of two half-batches. The base is theirs, too: Kaiming with fan_out.

    For Transformers (appendix A.3) the authors' code in fairseq has other constants: 780 iterations, tau 2.5e-3, betas
    0.9 and 0.98, second_moment own, norm_ceiling 100, no clip, and with Adam gamma 1000 and eta 1e-3 (5e-4 in the
    paper). Its S and S̃ are the first and the last two thirds of one batch of sentences of like length, which is overlap
    0.5; here half-batches are drawn without regard to length. There a tied weight moves in the step ahead as an
    embedding alone; here, as in training, it also moves as the head. That code divides the step of SGD by ‖g‖₂ only
    with a flag that its options do not define.

    Args:
        base: initializer that draws the weights; null keeps the model as it is.
        iterations: number of iterations, each with two half-batches, and a third if the loss is descended.
        tau: learning rate of the scales; the paper uses 3e-3 to 1e-1, depending on the architecture.
        gamma: upper bound on the gradient norm at the start of training; null for 1 with sgd and 1000 with adam, as in
            the paper, which uses 3 on ImageNet; ``.inf`` for no bound, so that the scales always descend the loss after
            a step.
        eta: size of the step ahead; null for the recipe's learning rate, as the authors do for SGD.
        optimizer: optimizer of the training to come, sgd or adam; null for the recipe's, where signsgd counts as adam
            because its first step is also sign(g).
        second_order: whether to differentiate through the step as well.
        overlap: fraction of S̃ that is in S: 0.5, the authors' choice (appendix B), for A and a new half-batch, 0 for
            two new ones, 1 for S itself.
        floor: least scale of a weight, 0.01 in appendix A.1; for biases it is 0, as in the authors' code.
        clip: bound on each scale's derivative; 1 in the authors' code for CIFAR-10; null for none.
        betas: decay rates of the scales' Adam, of its first and second moment.
        second_moment: shared if both objectives have one second moment, corrected by the number of all iterations; own
            if each has one, corrected by the number of its iterations.
        norm_ceiling: largest scale of the weights of normalizations; null for none.
        data: ``real`` or ``random`` half-batches.
        batch_size: samples of a half-batch.
        micro_batch_size: samples in memory at a time, for two half-batches that do not fit; null for all. ‖g‖, the loss
            and their derivatives are the same up to rounding; an iteration costs two forward passes, and three backward
            passes if ‖g‖ is descended or two if the loss is. With `second_order` the loss takes three and four. A model
            with BatchNorm is refused.

    Raises:
        ArgumentError: an argument is out of range.
    """
    check_counts(iterations=iterations, batch_size=batch_size, micro_batch_size=micro_batch_size)
    bound = math.inf if isinstance(gamma, str) else gamma
    check_positive(tau=tau, gamma=None if bound == math.inf else bound, eta=eta, clip=clip)
    if overlap not in {0, 0.5, 1}:
        raise ArgumentError(f"must be 0, 0.5 or 1, got {overlap}", "overlap")
    _check_scales(betas, floor, norm_ceiling)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        step_size = _step_size(eta, context)
        context.apply(base, model)
        statistics = evaluate_but_batch_norm(model, "train")
        trainable = differentiable_parameters(model, "gradinit")
        form = optimizer or ("sgd" if context.optimizer.name == "sgd" else "adam")
        largest = _GAMMA[form] if bound is None else bound
        given = (model, trainable, context, form, step_size)
        objective = (
            Objective(*given)
            if micro_batch_size is None
            else MicroBatchedObjective(*given, micro_batch_size, second_order=second_order)
        )
        scales = Scales(trainable, tau, betas, second_moment, floor, norm_ceilings(model, norm_ceiling), clip)
        draw = context.batches(data, batch_size)
        history: list[tuple[str, float, Tensor]] = []
        stopped_at, size = None, math.inf
        for iteration in range(iterations):
            a, b = next(draw), next(draw)
            both, second = _joined(context.task, a, b), None
            # A differentiable gradient costs more and is hardly ever needed if ‖g‖ was far below γ.
            guessed = objective.costs_more and (largest == math.inf or size < largest / 2) and not second_order
            g, norm = objective.gradient(both, differentiable=not guessed)
            size = norm.item()
            if guessed and size > largest:
                g, norm = objective.gradient(both, differentiable=True)
            if size == 0:
                raise InitializationError(f"gradinit: the gradient of the loss is zero at step {iteration}")
            if size > largest:
                branch, value, slopes = GRADIENT, norm.detach(), objective.of_gradient_norm(norm)
            else:
                if not second_order:  # the step is a constant; its graph is freed before the next is built
                    g, norm = {name: part.detach() for name, part in g.items()}, norm.detach()
                branch = LOSS
                second = both if overlap == 1 else _joined(context.task, a if overlap else next(draw), next(draw))
                value, slopes = objective.of_loss(g, norm, second)
            slope = scales.slope(slopes)
            if not (math.isfinite(size) and torch.isfinite(value + slope.sum())):
                _explain_not_finite(iteration, (*both, *(second or ())))
                scales.back()
                stopped_at = iteration
                break
            history.append((branch, size, value))
            scales.step(branch, slope)
        context.record.cost = {"forward": objective.forward_passes, "backward": objective.backward_passes}
        unused = [name for name in trainable if name not in g]
        _write_record(context.record, scales, history, unused, stopped_at)
        context.record.conditions |= {
            "unused_parameters": unused,
            "optimizer": form,
            "eta": step_size,
            "gamma": largest,
            "mode": "eval",
            "batch_norm": statistics,
            "half_batch_shape": list(a[0].shape),
            "stopped_at_step": stopped_at,
        }

    return apply


def _check_scales(betas: tuple[float, ...], floor: float, norm_ceiling: float | None) -> None:
    if not (math.isfinite(floor) and floor >= 0):
        raise ArgumentError(f"must be a finite number of at least 0, got {floor}", "floor")
    if norm_ceiling is not None and not (math.isfinite(norm_ceiling) and norm_ceiling >= max(floor, 1)):
        raise ArgumentError(f"must be a finite number of at least 1 and floor, got {norm_ceiling}", "norm_ceiling")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ArgumentError(f"must be two numbers from 0 to below 1, got {show(betas)}", "betas")


def _step_size(eta: float | None, context: InitializationContext) -> float:
    """Return the size of the step ahead; raise an ArgumentError if it is 0 because the training's rate is."""
    step_size = context.optimizer.lr if eta is None else eta
    if step_size == 0:
        raise ArgumentError(_NO_STEP, "eta")
    check_positive(eta=step_size)
    return step_size


def _explain_not_finite(iteration: int, halves: tuple[Tensor, ...]) -> None:
    """Raise an InitializationError if a value that is not finite is the fault of a batch or of the base."""
    if not is_finite(halves):
        raise InitializationError(f"gradinit: a half-batch of step {iteration} {NOT_FINITE}")
    if iteration == 0:
        raise InitializationError(
            "gradinit: the loss or a derivative of it is not finite at the base; start from smaller weights"
        )


def _joined(task: Task, first: Batch, second: Batch) -> Batch:
    with explained("gradinit: two half-batches cannot be joined"):
        return task.joined(first, second)


def _write_record(
    record: InitializationRecord,
    scales: Scales,
    history: list[tuple[str, float, Tensor]],
    unused: list[str],
    stopped_at: int | None,
) -> None:
    values = torch.stack([value for _, _, value in history]).tolist()
    record.history = [
        {"step": step, "gradient_norm": norm, "constrained": float(branch == GRADIENT), "objective": value}
        for step, ((branch, norm, _), value) in enumerate(zip(history, values, strict=True))
    ]
    constrained = sum(branch == GRADIENT for branch, _, _ in history)
    learned = scales.values()
    record.conditions |= {"constrained_steps": constrained, "scales": learned}
    for name, scale in learned.items():
        if name in unused:
            record.left(name, "unused")
        else:
            record.scaled(name, scale)
    for name in scales.zeros:
        record.left(name, "zero")
    if stopped_at is not None:
        warnings.warn(
            f"gradinit stopped at step {stopped_at}, where the loss or its gradient was not finite; the scales are the "
            "last at which both were",
            stacklevel=3,
        )
