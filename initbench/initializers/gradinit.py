"""GradInit: scaling each parameter tensor so that the first training step lowers the loss most.

Zhu, Ni, Xu, Kong, Huang & Goldstein, "GradInit: Learning to initialize neural networks for stable and efficient
training", NeurIPS 2021, Algorithm 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_count, check_optional_count, check_positive
from initbench.differentiation.gradients import differentiable_parameters
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.gradinit_objective import MicroBatchedObjective, Objective
from initbench.initializers.record import InitializationRecord
from initbench.models.batches import NOT_FINITE, Batch, is_finite
from initbench.models.calls import explained
from initbench.models.state import batch_norms
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind

BETAS, ADAM_EPS = (0.9, 0.999), 1e-8
GRADIENT, LOSS = "gradient norm", "loss"


class Scales:
    """The scale of each tensor, and their Adam optimizer.

    All scales are one vector on the model's device, so that no step waits for the device tensor by tensor. A scale that
    reaches 0 stays there because its tensor has lost its direction; the authors' code likewise passes over tensors of
    norm 0. Tensors of zeros are left out. `floor` is the least scale of a weight; for biases it is 0.
    """

    def __init__(self, trainable: dict[str, nn.Parameter], tau: float, floor: float, clip: float) -> None:
        norms = torch.stack([torch.linalg.vector_norm(p.detach()) for p in trainable.values()]).tolist()
        for name, norm in zip(trainable, norms, strict=True):
            if not math.isfinite(norm):
                raise InitializationError(f"gradinit: {name} is not finite")
        self.names = [name for name, norm in zip(trainable, norms, strict=True) if norm > 0]
        self.zeros = [name for name, norm in zip(trainable, norms, strict=True) if norm == 0]
        if not self.names:
            raise InitializationError("gradinit: every trainable parameter is zero: there is nothing to scale")
        self._places = [index for index, norm in enumerate(norms) if norm > 0]
        self._tensors: list[Tensor] = [trainable[name] for name in self.names]
        self._start = [tensor.detach().clone() for tensor in self._tensors]
        self._tau, self._clip = tau, clip
        self._floor = self._start[0].new_tensor(
            [0.0 if "bias" in name.rpartition(".")[2] else floor for name in self.names]
        )
        self._scale = torch.ones_like(self._floor)
        self._before = self._scale
        self._first = {GRADIENT: torch.zeros_like(self._scale), LOSS: torch.zeros_like(self._scale)}
        self._second = torch.zeros_like(self._scale)
        self._count = {GRADIENT: 0, LOSS: 0}

    def slope(self, slopes: Sequence[Tensor | None]) -> Tensor:
        """Return the derivative for each scale from the derivatives for all trainable tensors (None for zero)."""
        zero = self._scale.new_zeros(())
        pairs = zip(self._start, (slopes[place] for place in self._places), strict=True)
        return torch.stack([zero if g is None else (w * g).sum() for w, g in pairs])

    @torch.no_grad()
    def step(self, branch: str, slope: Tensor) -> None:
        """Move the scales once along the clipped derivatives of an objective."""
        slope = slope.clamp(-self._clip, self._clip)
        self._count[branch] += 1
        first = self._first[branch].lerp_(slope, 1 - BETAS[0])
        self._second.mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
        # The second moment averages the derivatives of both objectives, so its correction counts both.
        mean = first / (1 - BETAS[0] ** self._count[branch])
        square = self._second / (1 - BETAS[1] ** sum(self._count.values()))
        self._before = self._scale
        moved = self._scale - self._tau * mean / (square.sqrt() + ADAM_EPS)
        self._scale = torch.where(self._scale == 0, self._scale, torch.maximum(moved, self._floor))
        self._write()

    def back(self) -> None:
        self._scale = self._before
        self._write()

    def values(self) -> dict[str, float]:
        return dict(zip(self.names, self._scale.tolist(), strict=True))

    @torch.no_grad()
    def _write(self) -> None:
        torch._foreach_copy_(self._tensors, self._start)
        torch._foreach_mul_(self._tensors, list(self._scale.unbind()))


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
    clip: float = 1.0,
    data: DataKind = "real",
    batch_size: int = 64,
    micro_batch_size: int | None = None,
) -> Apply:
    """Learn one scale per parameter tensor so that one step of the training to come lowers the loss most.

    Each iteration draws two half-batches A and B and takes the gradient g of the loss on S = A ∪ B. If ‖g‖ > γ, the
    scales descend ‖g‖; otherwise they descend L(S̃; θ − η·step(g)) / η, the loss after one step on a second batch S̃.
    For SGD the norm is L2 and the step is g / ‖g‖₂, as in all launch scripts of the authors; for Adam they are L1 and
    sign(g). The scales follow Adam with derivatives clipped one by one, a first moment per objective and a shared
    second moment. Tensors of zeros keep their values; a scale that reaches 0, which can happen to a bias, stays there.
    The model is in eval mode meanwhile, except that BatchNorm uses batch statistics.

    This follows the authors' code: the derivative of the loss after the step treats the step as a constant (see
    `second_order`), and that loss is divided by η, unlike in the paper. An iteration costs two backward passes, plus
    one forward pass if ‖g‖ is descended or two if the loss is; when ‖g‖ rises from below γ / 2 to above γ, one more of
    each. The defaults are the authors' for VGG-19 without BatchNorm on CIFAR-10 (appendix A.1): an epoch of batches of
    128, each made of two half-batches. The base is theirs, too: Kaiming with fan_out.

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
        clip: bound on each scale's derivative; 1 in the authors' code for CIFAR-10.
        data: ``real`` or ``random`` half-batches.
        batch_size: samples of a half-batch.
        micro_batch_size: samples in memory at a time, for two half-batches that do not fit; null for all. ‖g‖, the loss
            and their derivatives are the same up to rounding; an iteration costs two forward passes, and three backward
            passes if ‖g‖ is descended or two if the loss is. With `second_order` the loss takes three and four. A model
            with BatchNorm is refused.

    Raises:
        ArgumentError: an argument is out of range.
    """
    check_count("iterations", iterations)
    check_count("batch_size", batch_size)
    check_optional_count("micro_batch_size", micro_batch_size)
    bound = math.inf if isinstance(gamma, str) else gamma
    _check({"tau": tau, "gamma": None if bound == math.inf else bound, "eta": eta, "clip": clip}, floor, overlap)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        step_size = _step_size(eta, context)
        context.apply(base, model)
        statistics = _set_modes(model)
        trainable = differentiable_parameters(model, "gradinit")
        form = optimizer or ("sgd" if context.optimizer.name == "sgd" else "adam")
        largest = _GAMMA[form] if bound is None else bound
        objective = _objective((model, trainable, context, form, step_size), micro_batch_size, second_order)
        scales = Scales(trainable, tau, floor, clip)
        draw = context.batches(data, batch_size)
        history: list[tuple[str, float, Tensor]] = []
        stopped_at, size = None, math.inf
        for iteration in range(iterations):
            a, b = next(draw), next(draw)
            both, second = _join(a, b), None
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
                second = _second_batch(overlap, a, b, draw)
                value, slopes = objective.of_loss(g, norm, second)
            slope = scales.slope(slopes)
            if not (math.isfinite(size) and torch.isfinite(value + slope.sum())):
                if not is_finite((*both, *(second or ()))):
                    raise InitializationError(f"gradinit: a half-batch of step {iteration} {NOT_FINITE}")
                if iteration == 0:
                    raise InitializationError(
                        "gradinit: the loss or a derivative of it is not finite at the base; start from smaller weights"
                    )
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


def _check(positive: dict[str, float | None], floor: float, overlap: float) -> None:
    for name, value in positive.items():
        if value is not None:
            check_positive(name, value)
    if not (math.isfinite(floor) and floor >= 0):
        raise ArgumentError(f"must be a finite number of at least 0, got {floor}", "floor")
    if overlap not in {0, 0.5, 1}:
        raise ArgumentError(f"must be 0, 0.5 or 1, got {overlap}", "overlap")


def _step_size(eta: float | None, context: InitializationContext) -> float:
    """Return the size of the step ahead; raise an ArgumentError if it is 0 because the training's rate is."""
    step_size = context.optimizer.lr if eta is None else eta
    if step_size == 0:
        raise ArgumentError(_NO_STEP, "eta")
    check_positive("eta", step_size)
    return step_size


def _objective(
    given: tuple[nn.Module, dict[str, nn.Parameter], InitializationContext, str, float],
    micro_batch_size: int | None,
    second_order: bool,
) -> Objective:
    if micro_batch_size is None:
        return Objective(*given)
    return MicroBatchedObjective(*given, micro_batch_size, second_order=second_order)


def _set_modes(model: nn.Module) -> str | None:
    """Switch dropout off and let BatchNorm use the batch; return the statistics in use, None without BatchNorm."""
    model.eval()
    layers = batch_norms(model)
    for layer in layers:
        layer.training = True
    return "batch statistics" if layers else None


def _join(first: Batch, second: Batch) -> Batch:
    with explained("gradinit: two half-batches cannot be joined"):
        return torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])


def _second_batch(overlap: float, a: Batch, b: Batch, draw: Iterator[Batch]) -> Batch:
    if overlap == 1:
        return _join(a, b)
    return _join(a if overlap else next(draw), next(draw))


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
    record.conditions |= {"constrained_steps": constrained, "scales": scales.values()}
    for name, scale in scales.values().items():
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
