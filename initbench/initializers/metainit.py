"""MetaInit: tune the norms of the weights so that the gradient quotient falls.

Dauphin & Schoenholz, "MetaInit: Initializing learning by learning to initialize", NeurIPS 2019, listing of Figure 2.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import median
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.arguments import check_counts, check_positive
from initbench.differentiation.gradients import differentiable_parameters, loss_gradients
from initbench.differentiation.micro_batches import losses_of
from initbench.errors import ArgumentError, InitializationError
from initbench.initializers.context import Apply, InitializationContext
from initbench.initializers.record import InitializationRecord
from initbench.inputs import Inputs
from initbench.models.batches import NOT_FINITE, is_finite, zero_inputs
from initbench.models.state import evaluate_but_batch_norm
from initbench.plugins import first_line
from initbench.probes.gradient_quotient import Method, VectorNorm, quotient_and_gradients
from initbench.registry import Initializer, register_initializer
from initbench.registry.traits import DataKind

NormOptimizer = Literal["signsgd", "adam", "sgd"]
Parametrization = Literal["norm", "scale"]
BETAS, ADAM_EPS = (0.9, 0.999), 1e-8
FLOOR = 0.01
"""Least scale of a weight in the code of GradInit's authors."""
MOMENTUM = 0.9
PLATEAU_TOLERANCE = 0.05


def check_optimizer(optimizer: NormOptimizer, momentum: float, clip: float | None) -> None:
    if not 0 <= momentum < 1:
        raise ArgumentError(f"must be at least 0 and below 1, got {momentum}", "momentum")
    if optimizer == "adam" and momentum != MOMENTUM:
        raise ArgumentError("has an effect only with the optimizers signsgd and sgd", "momentum")
    check_positive(clip=clip)
    if clip is not None and optimizer == "signsgd":
        raise ArgumentError("has an effect only with the optimizers adam and sgd", "clip")


def check_input_size(size: int | None, data: DataKind) -> None:
    check_counts(input_size=size)
    if size is not None and data != "random":
        raise ArgumentError("is for random data", "input_size")


def random_inputs(model: nn.Module, context: InitializationContext, size: int) -> Inputs:
    """Return the description of one random sample of another size than the model's inputs."""
    if context.given_batches is not None:
        raise InitializationError("metainit: input_size is for random data, but batches are given")
    if context.inputs is None or not context.inputs.is_image:
        what = "unknown" if context.inputs is None else context.inputs
        raise InitializationError(f"metainit: input_size is for images, but the inputs are {what}")
    inputs = Inputs((context.inputs.shape[0], size, size))
    model.eval()
    try:
        with torch.no_grad():
            model(zero_inputs(inputs, model))
    except Exception as error:
        raise InitializationError(
            f"metainit: the network does not take inputs of {inputs}, which input_size asks for: {first_line(error)}"
        ) from error
    return inputs


def check_plateau(window: int | None, tolerance: float) -> None:
    if not 0 <= tolerance < 1:
        raise ArgumentError(f"must be at least 0 and below 1, got {tolerance}", "plateau_tolerance")
    check_counts(plateau_window=window)
    if window is None and tolerance != PLATEAU_TOLERANCE:
        raise ArgumentError("has an effect only with a plateau_window", "plateau_tolerance")


def check_first_step(
    gq: Tensor, slopes: Sequence[Tensor | None], tuned: dict[str, nn.Parameter], finite: list[Tensor]
) -> None:
    if all(slope is None for slope in slopes):
        raise InitializationError(
            f"metainit: the gradient quotient does not depend on {', '.join(tuned)}: the loss is linear in the "
            "parameters or does not use them"
        )
    if not torch.isfinite(gq):
        check_batch(finite, 0)
        raise InitializationError(
            f"metainit: the gradient quotient of the base is {gq.item()}; start from smaller weights"
        )


def check_batch(finite: list[Tensor], step: int) -> None:
    if step < len(finite) and not finite[step]:
        raise InitializationError(f"metainit: the batch of step {step} {NOT_FINITE}")


class Norms:
    """The norms of the tuned tensors and the optimizer that moves them.

    The norms and the optimizer's state are vectors on the model's device, so that no step waits for it. A tensor is
    always its initial value times norm · direction / initial norm. The optimizer moves the norm, or the ``scale``, its
    ratio to the initial norm, which stays at or above `FLOOR` (0 for biases).
    """

    def __init__(
        self,
        tuned: dict[str, nn.Parameter],
        optimizer: NormOptimizer,
        lr: float,
        momentum: float,
        parametrization: Parametrization = "norm",
        clip: float | None = None,
    ) -> None:
        self._names = list(tuned)
        self._tensors: list[Tensor] = list(tuned.values())
        self._start = [tensor.detach().clone() for tensor in self._tensors]
        self._start_norm = torch.stack([torch.linalg.vector_norm(tensor) for tensor in self._start])
        for name, norm in zip(self._names, self._start_norm.tolist(), strict=True):
            if norm == 0:
                raise InitializationError(
                    f"metainit: {name} has norm 0, so there is no direction to scale it along; zeros: keep leaves it "
                    "as it is"
                )
            if not math.isfinite(norm):
                raise InitializationError(f"metainit: {name} has norm {norm:g}: no direction to scale it along")
        # The change of the norm for a move of 1, and the least norm; None if a norm may fall below 0 and flip the sign.
        self._unit = self._start_norm if parametrization == "scale" else torch.ones_like(self._start_norm)
        self._floor: Tensor | None = None
        if parametrization == "scale":
            floors = [0.0 if "bias" in name.rpartition(".")[2] else FLOOR for name in self._names]
            self._floor = self._start_norm.new_tensor(floors) * self._start_norm
        moved = torch.ones_like(self._start_norm) if parametrization == "scale" else self._start_norm
        self._optimizer: _Momentum | _Adam
        if optimizer == "adam":
            self._optimizer = _Adam(moved, lr, clip)
        else:
            self._optimizer = _Momentum(moved, lr, momentum, clip, signs=optimizer == "signsgd")
        self._norm = self._start_norm.clone()
        self._direction = torch.ones_like(self._norm)
        self._flips = torch.zeros_like(self._norm)
        self._finite_steps = torch.zeros_like(self._norm[0])
        self._finite = torch.ones_like(self._norm[0], dtype=torch.bool)
        self._last_finite = self._norm.clone()

    @torch.no_grad()
    def step(self, gq: Tensor, slopes: Sequence[Tensor | None]) -> None:
        """Move the norms once and write the tensors; once a GQ or move is not finite, move nothing."""
        zero = torch.zeros_like(gq)
        # d GQ / d norm = ⟨w, ∇GQ⟩ / ‖w‖ (Salimans & Kingma, 2016, equation (3)), here times ‖start‖.
        pairs = zip(self._start, slopes, strict=True)
        slope = self._direction * torch.stack([zero if g is None else (w * g).sum() for w, g in pairs])
        move = self._optimizer.move(slope) * self._unit
        self._finite &= torch.isfinite(gq) & torch.isfinite(move).all()
        self._finite_steps += self._finite
        self._last_finite = torch.where(self._finite, self._direction * self._norm, self._last_finite)
        moved = torch.where(self._finite, self._norm + move, self._norm)
        if self._floor is not None:  # a bias that reaches norm 0 has lost its direction and stays there
            moved = torch.where(self._norm == 0, self._norm, torch.maximum(moved, self._floor))
        self._flips += moved < 0
        self._direction = torch.where(moved < 0, -self._direction, self._direction)
        self._norm = moved.abs()
        self._write(self._direction * self._norm)

    def stopped(self) -> bool:
        """Return whether some GQ or move was not finite; waits for the device."""
        return not bool(self._finite)

    def finish(self) -> None:
        """If something was not finite, restore the tensors of the last step at which everything was."""
        if self.stopped():
            self._direction, self._norm = self._last_finite.sign(), self._last_finite.abs()
            self._write(self._last_finite)

    @property
    def finite_steps(self) -> int:
        return int(self._finite_steps)

    @property
    def sign_flips(self) -> dict[str, int]:
        return {name: int(count) for name, count in zip(self._names, self._flips.tolist(), strict=True)}

    @property
    def start_and_end(self) -> dict[str, tuple[float, float]]:
        """Initial and current norm; the current one is negative if the tensor has changed its sign."""
        now = (self._direction * self._norm).tolist()
        return dict(zip(self._names, zip(self._start_norm.tolist(), now, strict=True), strict=True))

    @torch.no_grad()
    def _write(self, signed_norm: Tensor) -> None:
        torch._foreach_copy_(self._tensors, self._start)
        torch._foreach_mul_(self._tensors, list((signed_norm / self._start_norm).unbind()))


class _Momentum:
    """Gradient descent with momentum, v ← μv − lr·g, and with `signs` signSGD, as in the paper's listing.

    A sign flip of a tensor leaves its velocity unchanged. Every optimizer is given the initial values of what it moves:
    the norms, or scales of 1. `move` takes the derivatives for the norms, times the initial norms, and returns the
    change of the norms or scales.
    """

    def __init__(self, moved: Tensor, lr: float, momentum: float, clip: float | None, *, signs: bool) -> None:
        self._start, self._lr, self._momentum, self._clip, self._signs = moved, lr, momentum, clip, signs
        self._velocity = torch.zeros_like(moved)

    def move(self, slope: Tensor) -> Tensor:
        direction = slope.sign() if self._signs else _clipped(slope / self._start, self._clip)
        self._velocity = self._momentum * self._velocity - self._lr * direction
        return self._velocity


class _Adam:
    """Adam with bias correction; a sign flip of a tensor leaves its moments unchanged.

    It stores the square root of the second moment because the squares of the derivatives, which grow with GQ, would
    overflow float32.
    """

    def __init__(self, moved: Tensor, lr: float, clip: float | None) -> None:
        self._start, self._lr, self._clip = moved, lr, clip
        self._first, self._root = torch.zeros_like(moved), torch.zeros_like(moved)
        self._count = 0

    def move(self, slope: Tensor) -> Tensor:
        slope = _clipped(slope / self._start, self._clip)
        self._count += 1
        first, second = BETAS
        self._first = first * self._first + (1 - first) * slope
        self._root = torch.hypot(math.sqrt(second) * self._root, math.sqrt(1 - second) * slope)
        mean, root = self._first / (1 - first**self._count), self._root / math.sqrt(1 - second**self._count)
        return -self._lr * mean / (root + ADAM_EPS)


def _clipped(derivatives: Tensor, clip: float | None) -> Tensor:
    return derivatives if clip is None else derivatives.clamp(-clip, clip)


_LOOK_EVERY = 50
# GQ rose if it reached 100 times its first value, for good if the median of the last ten is 10 times the first.
_RISEN, _LASTING, _LAST_STEPS = 100, 10, 10
# Forward and backward passes of a step; the backward passes are for g, for Hg or the gradient after the step, and for
# the derivative of GQ. See `micro_batched_quotient` for micro-batches.
_PASSES: dict[tuple[Method, bool], tuple[int, int]] = {
    ("exact", False): (1, 3),
    ("finite_difference", False): (2, 3),
    ("exact", True): (4, 8),
    ("finite_difference", True): (4, 6),
}


@register_initializer(
    "metainit",
    3,
    data="random",
    smoke={"steps": 3},
    reference="Dauphin & Schoenholz, MetaInit, NeurIPS 2019, Figure 2",
)
def metainit(
    base: Initializer | None = Initializer("delta_orthogonal"),
    steps: int = 500,
    lr: float = 0.1,
    momentum: float = MOMENTUM,
    eps: float = 1e-5,
    plateau_window: int | None = None,
    plateau_tolerance: float = PLATEAU_TOLERANCE,
    data: DataKind = "random",
    optimizer: NormOptimizer = "signsgd",
    norm: VectorNorm = "l1",
    method: Method = "exact",
    mode: Literal["eval", "train"] = "eval",
    batch_size: int = 32,
    zeros: Literal["refuse", "keep"] = "refuse",
    micro_batch_size: int | None = None,
    input_size: int | None = None,
    parametrization: Parametrization = "norm",
    clip: float | None = None,
) -> Apply:
    """Tune the norm of each weight so that the gradient quotient falls, by default by signSGD on random batches.

    Each step draws one batch, computes GQ over all trainable parameters and moves the norm of each parameter with two
    or more dimensions against its derivative. A step that takes a norm below zero flips the signs of the weight's
    entries, as in the paper's listing; flips are counted. Biases, scalars and gates keep their values. The model is in
    eval mode meanwhile, except for BatchNorm if `mode` is ``train``. A step costs one forward pass (two with finite
    differences) and three backward passes.

    The defaults follow the paper's listing, the only code of its authors, with its slip (``gg`` for ``gq``) corrected.
    Base and batch size follow its CIFAR-10 networks (section 4.2, where WideResnet 202-4 takes 200 steps); its linear
    networks use 1000 steps and momentum .5 (section 4.1).

    GQ may rise instead of falling: a step of signSGD has the same length whatever the derivative, and momentum
    accumulates up to 1 / (1 − `momentum`) of them. If the largest finite GQ is at least 100 times the first, the
    record's condition ``rise`` contains the first GQ (``from``), the largest (``to``, ``at_step``) and the median of
    the last ten (``end``); otherwise it is null. A warning follows only if ``end`` is at least ten times ``from`` and
    covers ten steps: a peak alone is common if the gradient has vanished at the start, which makes GQ 1, and the tuning
    has to pass through larger values. The thresholds are ours. Of the 98 tunings of the papers' twin suites in
    ``docs/results/papers``, 20 peaked above 100 times the first GQ and ended below it, and 5 ended above 10⁶ times it;
    none ended between 1.4 and 10⁶ times it.

    Real data and Adam come from GradInit's authors (Zhu et al., NeurIPS 2021, Table 9). To reproduce their code,
    zhuchen03/gradinit@777c407, use ``parametrization: scale`` with ``clip: 1``, ``optimizer: adam`` and ``data: real``:
    it moves the ratio of a norm to its initial value, for 1-d weights and biases too. By default Adam moves the norm
    itself, for the same tensors as signSGD and without clipping; because GQ's derivatives are heavy-tailed, a single
    large one then slows a norm for hundreds of steps.

    Args:
        base: initializer that draws the weights; null keeps the model as it is.
        steps: number of steps, one batch each.
        lr: distance that a norm moves in the first step, an absolute length; for ``sgd`` times the derivative of GQ.
        momentum: momentum of signSGD and SGD; Adam has betas of .9 and .999, and an epsilon of 1e-8.
        eps: ε0 of the gradient quotient.
        plateau_window: steps per window of the plateau stop, which is ours and not the paper's: tuning ends if the
            median GQ of a window is not below (1 − `plateau_tolerance`) × the median of the previous window; null for
            all `steps`.
        plateau_tolerance: least relative fall of the median GQ from window to window, in [0, 1).
        data: ``random`` noise, or ``real`` batches.
        optimizer: optimizer of the norms: ``signsgd``, ``adam``, or ``sgd``, plain gradient steps, which a single large
            gradient may derail (section 3).
        norm: vector norm in GQ: ``l1`` as in equation (1), or ``l2`` as in Figure 4, where it falls more slowly.
        method: how GQ is computed: ``exact`` is the left side of equation (1); ``finite_difference`` its right side,
            with the gradient after a step. They are equal for a quadratic loss.
        mode: ``eval`` for BatchNorm with running statistics, as in the listing, which leave a new network as if it had
            no BatchNorm; ``train`` for BatchNorm with batch statistics. Dropout is off in both.
        batch_size: samples per batch, one batch per step.
        zeros: what to do with a weight of zeros, whose norm has no derivative: ``refuse`` the model, because the
            listing would divide by the norm, or ``keep`` the zeros and tune the other weights, which is ours and not
            the paper's. GQ is over all parameters in both.
        micro_batch_size: samples in memory at a time, for a batch that does not fit; null for all. GQ and its
            derivative are the same up to rounding; a step costs four forward passes and eight backward passes (six with
            finite differences). BatchNorm in mode ``train`` is refused.
        input_size: height and width of random images, if they differ from the images that the network will be trained
            on; null for the same size. The paper tunes its ResNet-50 for ImageNet at 32 (section 4.2).
        parametrization: what the optimizer moves: the ``norm`` of each tensor of two or more dimensions; or the
            ``scale``, its ratio to the initial norm, of every nonzero parameter, as GradInit's authors do. A scale
            stays at or above .01 (0 for biases), so its sign never changes.
        clip: bound on the derivative of GQ for one norm or scale; null for none. It has no effect on signs.

    Raises:
        ArgumentError: an argument is out of range, or has no effect.
    """
    check_counts(steps=steps)
    check_positive(lr=lr, eps=eps)
    check_counts(batch_size=batch_size, micro_batch_size=micro_batch_size)
    check_optimizer(optimizer, momentum, clip)
    check_plateau(plateau_window, plateau_tolerance)
    check_input_size(input_size, data)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        context.apply(base, model)
        sample = None if input_size is None else random_inputs(model, context, input_size)
        statistics = evaluate_but_batch_norm(model, mode)
        trainable = differentiable_parameters(model, "metainit")
        tuned = _tuned(trainable, parametrization)
        if zeros == "keep":
            tuned = _without_zeros(tuned, context.record)
        parameters = list(trainable.values())
        norms = Norms(tuned, optimizer, lr, momentum, parametrization, clip)
        loss_fn = context.loss
        quotients: list[Tensor] = []
        finite: list[Tensor] = []  # whether each batch is; read only if a quotient is not
        plateau_at, passes = None, [0, 0]
        for step, batch in zip(range(steps), context.batches(data, batch_size, sample), strict=False):
            finite.append(is_finite(batch))
            batch_norm = statistics == "batch statistics"
            losses = losses_of(
                model, batch, loss_fn, micro_batch_size, context.weight, batch_norm=batch_norm, third=True
            )
            gq, gradients = quotient_and_gradients(model, losses, parameters, eps, norm, method)
            passes = [sum(pair) for pair in zip(passes, _PASSES[method, len(losses) > 1], strict=True)]
            slopes = loss_gradients(gq, list(tuned.values()), create_graph=False)
            if step == 0:
                check_first_step(gq, slopes, tuned, finite)
                unused = [name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None]
                context.record.conditions |= {"batch_shape": list(batch[0].shape), "unused_parameters": unused}
            quotients.append(gq.detach())
            norms.step(quotients[-1], slopes)
            if step % _LOOK_EVERY == 0 and norms.stopped():
                break
            if plateau_window is not None and _on_plateau(quotients, plateau_window, plateau_tolerance):
                plateau_at = None if norms.stopped() else len(quotients)
                break
        norms.finish()
        check_batch(finite, norms.finite_steps)
        _write_record(context.record, norms, quotients)
        context.record.cost = dict(zip(("forward", "backward"), passes, strict=True))
        context.record.conditions |= {
            "steps": steps,
            "lr": lr,
            "optimizer": optimizer,
            "momentum": None if optimizer == "adam" else momentum,
            "eps": eps,
            "plateau_at_step": plateau_at,
            "norm": norm,
            "method": method,
            "mode": mode,
            "batch_norm": statistics,
        }

    return apply


def _tuned(trainable: dict[str, nn.Parameter], parametrization: Parametrization) -> dict[str, nn.Parameter]:
    """Return the tensors to tune: two or more dimensions; with ``scale`` also all that are not zero."""
    tuned = {name: p for name, p in trainable.items() if p.dim() >= 2}
    if not tuned:
        raise InitializationError("metainit: no parameter of two or more dimensions requires a gradient")
    if parametrization == "norm":
        return tuned
    return {name: p for name, p in trainable.items() if p.dim() >= 2 or torch.count_nonzero(p.detach())}


def _without_zeros(tuned: dict[str, nn.Parameter], record: InitializationRecord) -> dict[str, nn.Parameter]:
    nonzero = {name: p for name, p in tuned.items() if torch.count_nonzero(p.detach())}
    for name in tuned:
        if name not in nonzero:
            record.left(name, "zero")
    if not nonzero:
        raise InitializationError("metainit: every weight is zero: there is nothing to tune")
    return nonzero


def _on_plateau(quotients: list[Tensor], window: int, tolerance: float) -> bool:
    """Return whether a window just ended whose median GQ has not fallen; waits for the device at its end."""
    if len(quotients) % window or len(quotients) < 2 * window:
        return False
    before, last = torch.stack(quotients[-2 * window :]).view(2, window).quantile(0.5, dim=1).tolist()
    return bool(last >= (1 - tolerance) * before)


def _write_record(record: InitializationRecord, norms: Norms, quotients: list[Tensor]) -> None:
    """Record the steps; warn if they stopped early, or if GQ rose and stayed high."""
    values = torch.stack(quotients).tolist()
    stopped_at = None if norms.finite_steps == len(values) else norms.finite_steps
    shown = len(values) if stopped_at is None else stopped_at + 1
    record.history = [{"step": step, "gradient_quotient": value} for step, value in enumerate(values[:shown])]
    record.conditions |= {
        "sign_flips": norms.sign_flips,
        "norms": norms.start_and_end,
        "stopped_at_step": stopped_at,
        "rise": (rise := _rise(values[:shown])),
    }
    unused = record.conditions["unused_parameters"]
    for name, (start, end) in norms.start_and_end.items():
        if name in unused:
            record.left(name, "unused")
        else:
            record.scaled(name, end / start)
    if stopped_at is not None:
        warnings.warn(
            f"metainit stopped at step {stopped_at}, where the gradient quotient was not finite or its derivative was "
            "not; the weights are the last at which both were",
            stacklevel=3,
        )
    if rise is not None and rise["end"] >= _LASTING * rise["from"] and shown > _LAST_STEPS:
        warnings.warn(
            f"metainit: the gradient quotient rose from {rise['from']:.3g} to {rise['to']:.3g} at step "
            f"{rise['at_step']} and ended near {rise['end']:.3g}; the paper offers momentum 0.5 or 0.9 by "
            "cross-validation and, for its largest network, batches of 4096 (section 4.2)",
            stacklevel=3,
        )


def _rise(quotients: list[float]) -> dict[str, float] | None:
    """Return the first and largest GQ, its step, and the final GQ; None if it did not rise by orders of magnitude."""
    finite = {step: value for step, value in enumerate(quotients) if math.isfinite(value)}
    peak = max(finite, key=finite.__getitem__)
    if peak == 0 or finite[peak] < _RISEN * finite[0]:
        return None
    end = median(list(finite.values())[1:][-_LAST_STEPS:])
    return {"from": finite[0], "to": finite[peak], "at_step": peak, "end": end}
