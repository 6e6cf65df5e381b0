"""MetaInit: tuning the norms of the weights so that the gradient quotient falls.

Dauphin & Schoenholz, "MetaInit: Initializing learning by learning to initialize", NeurIPS 2019, listing of Figure 2.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from initbench.errors import InitializationError
from initbench.initializers.context import Apply  # noqa: TC001 - the registry evaluates the annotations
from initbench.probes.checks import check_count, check_positive
from initbench.probes.gradient_quotient import (
    batch_loss,
    check_parameters,
    flatten,
    hessian_products,
    loss_gradients,
    quotient,
)
from initbench.registry import register_initializer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from initbench.initializers.context import InitializationContext, InitializationRecord

_LOOK_EVERY = 50
_PLATEAU_TOLERANCE = 0.05


@register_initializer(
    "metainit",
    2,
    kind="tuner",
    base="delta_orthogonal",
    batch_size=32,
    smoke={"steps": 3},
    reference="Dauphin & Schoenholz, MetaInit, NeurIPS 2019, Figure 2",
)
def metainit(
    steps: int = 500,
    lr: float = 0.1,
    momentum: float = 0.9,
    eps: float = 1e-5,
    plateau_window: int | None = None,
    plateau_tolerance: float = _PLATEAU_TOLERANCE,
) -> Apply:
    """Tune the norm of each weight by signSGD so that the gradient quotient of random batches falls.

    Each step draws one batch of noise, takes GQ over all trainable parameters and moves the norm of every one with
    two or more dimensions by the sign of its derivative, with momentum. A step that takes a norm below zero flips the
    signs of the weight's entries, as the paper's listing does; flips are counted. The model is in eval mode
    meanwhile: BatchNorm uses its running statistics. Biases, scalars and gates keep their values.

    Args:
        steps: number of steps, one batch each.
        lr: by which a norm moves in one step, an absolute length.
        momentum: of signSGD.
        eps: ε0 of the gradient quotient.
        plateau_window: steps in a window of the plateau stop, which is ours and not the paper's: it ends the tuning
            where the median GQ of a window is not below (1 − `plateau_tolerance`) × that of the window before; null
            for all `steps`.
        plateau_tolerance: the least relative fall of the median GQ from window to window, in [0, 1).

    Raises:
        ValueError: an argument is out of its range, or has no effect.
    """
    check_count("steps", steps)
    check_positive("lr", lr)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
    check_positive("eps", eps)
    _check_plateau(plateau_window, plateau_tolerance)

    def apply(model: nn.Module, context: InitializationContext) -> None:
        model.eval()
        trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
        tuned = {name: p for name, p in trainable.items() if p.dim() >= 2}
        if not tuned:
            raise InitializationError("metainit: no parameter of two or more dimensions requires a gradient")
        over = list(trainable.values())
        check_parameters(over)
        norms = _Norms(tuned, lr, momentum)
        quotients: list[Tensor] = []
        plateau_at = None
        for step, (inputs, targets) in zip(range(steps), context.batches(), strict=False):
            gradients = loss_gradients(batch_loss(model, inputs, targets, context.loss_fn), over)
            g = flatten(gradients, over)
            gq = quotient(g, g - flatten(hessian_products(gradients, over), over), eps)
            slopes = loss_gradients(gq, list(tuned.values()), create_graph=False)
            if step == 0:
                _check_first_step(gq, slopes, tuned)
                unused = [name for name, gradient in zip(trainable, gradients, strict=True) if gradient is None]
                context.record.conditions |= {"batch_shape": list(inputs.shape), "unused_parameters": unused}
            quotients.append(gq.detach())
            norms.step(quotients[-1], slopes)
            if step % _LOOK_EVERY == 0 and norms.stopped():
                break
            if plateau_window is not None and _on_plateau(quotients, plateau_window, plateau_tolerance):
                plateau_at = None if norms.stopped() else len(quotients)
                break
        norms.finish()
        _write_record(context.record, norms, quotients)
        context.record.conditions |= {
            "steps": steps,
            "lr": lr,
            "momentum": momentum,
            "eps": eps,
            "plateau_at_step": plateau_at,
            "norm": "l1",
            "method": "exact",
            "mode": "eval",
            "batch_norm": "running statistics" if _uses_running_statistics(model) else None,
        }

    return apply


def _uses_running_statistics(model: nn.Module) -> bool:
    return any(isinstance(module, _NormBase) and module.track_running_stats for module in model.modules())


def _check_plateau(window: int | None, tolerance: float) -> None:
    if not 0 <= tolerance < 1:
        raise ValueError(f"plateau_tolerance must be at least 0 and below 1, got {tolerance}")
    if window is not None:
        check_count("plateau_window", window)
    elif tolerance != _PLATEAU_TOLERANCE:
        raise ValueError("plateau_tolerance has an effect only with a plateau_window")


def _on_plateau(quotients: list[Tensor], window: int, tolerance: float) -> bool:
    """Return whether a window has just ended whose median GQ has not fallen; waits for the device at a window's end."""
    if len(quotients) % window or len(quotients) < 2 * window:
        return False
    before, last = torch.stack(quotients[-2 * window :]).view(2, window).quantile(0.5, dim=1).tolist()
    return bool(last >= (1 - tolerance) * before)


def _check_first_step(gq: Tensor, slopes: Sequence[Tensor | None], tuned: dict[str, nn.Parameter]) -> None:
    """Raise an InitializationError where there is nothing to start from."""
    if all(slope is None for slope in slopes):
        raise InitializationError(
            f"metainit: the gradient quotient does not depend on {', '.join(tuned)}: the loss is linear in the "
            "parameters or does not use them"
        )
    if not torch.isfinite(gq):
        raise InitializationError(
            f"metainit: the gradient quotient of the base is {gq.item()}; start from smaller weights"
        )


def _write_record(record: InitializationRecord, norms: _Norms, quotients: list[Tensor]) -> None:
    """Write what the steps did; warn where they stopped early."""
    values = torch.stack(quotients).tolist()
    stopped_at = None if norms.finite_steps == len(values) else norms.finite_steps
    shown = len(values) if stopped_at is None else stopped_at + 1
    record.history = [{"step": step, "gradient_quotient": value} for step, value in enumerate(values[:shown])]
    record.cost = {"forward": len(quotients), "backward": 3 * len(quotients)}
    record.conditions |= {
        "sign_flips": norms.sign_flips,
        "norms": norms.start_and_end,
        "stopped_at_step": stopped_at,
    }
    unused = record.conditions["unused_parameters"]
    for name, (start, end) in norms.start_and_end.items():
        record.note(name, "untouched: the loss does not use it" if name in unused else f"scaled by {end / start:.4g}")
    if stopped_at is not None:
        warnings.warn(
            f"metainit stopped at step {stopped_at}, where the gradient quotient was not finite; the weights are the "
            "last at which it was",
            stacklevel=3,
        )


class _Norms:
    """The norms of the tuned tensors and their signSGD.

    All norms are one vector on the model's device, and so are the velocities, so that no step waits for the device.
    A tensor is always its start times norm · direction / norm of the start.

    Args:
        tuned: the tensors by name.
        lr: of signSGD.
        momentum: of signSGD.

    Raises:
        InitializationError: a tensor is zero, or not finite.
    """

    def __init__(self, tuned: dict[str, nn.Parameter], lr: float, momentum: float) -> None:
        self._names = list(tuned)
        self._tensors: list[Tensor] = list(tuned.values())
        self._lr, self._momentum = lr, momentum
        self._start = [tensor.detach().clone() for tensor in self._tensors]
        self._start_norm = torch.stack([torch.linalg.vector_norm(tensor) for tensor in self._start])
        for name, norm in zip(self._names, self._start_norm.tolist(), strict=True):
            if norm == 0 or not math.isfinite(norm):
                raise InitializationError(f"metainit: {name} has norm {norm:g}: it has no direction to be scaled along")
        self._norm = self._start_norm.clone()
        self._direction = torch.ones_like(self._norm)
        self._velocity = torch.zeros_like(self._norm)
        self._flips = torch.zeros_like(self._norm)
        self._finite_steps = torch.zeros_like(self._norm[0])
        self._finite = torch.ones_like(self._norm[0], dtype=torch.bool)
        self._last_finite = self._norm.clone()

    @torch.no_grad()
    def step(self, gq: Tensor, slopes: Sequence[Tensor | None]) -> None:
        """Move the norms once and write the tensors; from the first GQ that is not finite on, move nothing.

        Args:
            gq: 0-dim.
            slopes: ∇GQ of each tensor, None for zero.
        """
        zero = torch.zeros_like(gq)
        # d GQ / d norm = ⟨w, ∇GQ⟩ / ‖w‖ (Salimans & Kingma, 2016, equation (3)), up to the positive factor 1 / ‖start‖.
        pairs = zip(self._start, slopes, strict=True)
        slope = self._direction * torch.stack([zero if g is None else (w * g).sum() for w, g in pairs])
        self._finite &= torch.isfinite(gq) & ~slope.isnan().any()
        self._finite_steps += self._finite
        self._last_finite = torch.where(self._finite, self._direction * self._norm, self._last_finite)
        velocity = self._momentum * self._velocity - self._lr * slope.sign()
        self._velocity = torch.where(self._finite, velocity, self._velocity)
        moved = torch.where(self._finite, self._norm + self._velocity, self._norm)
        self._flips += moved < 0
        self._direction = torch.where(moved < 0, -self._direction, self._direction)
        self._norm = moved.abs()
        self._write(self._direction * self._norm)

    def stopped(self) -> bool:
        """Return whether a GQ was not finite; waits for the device."""
        return not bool(self._finite)

    def finish(self) -> None:
        """Write the last tensors at which GQ was finite, if one was not."""
        if self.stopped():
            self._direction, self._norm = self._last_finite.sign(), self._last_finite.abs()
            self._write(self._last_finite)

    @property
    def finite_steps(self) -> int:
        """Number of steps whose GQ was finite."""
        return int(self._finite_steps)

    @property
    def sign_flips(self) -> dict[str, int]:
        """How often each tensor changed its sign."""
        return {name: int(count) for name, count in zip(self._names, self._flips.tolist(), strict=True)}

    @property
    def start_and_end(self) -> dict[str, tuple[float, float]]:
        """Norm at the start and now, negative now where the tensor points the other way."""
        now = (self._direction * self._norm).tolist()
        return dict(zip(self._names, zip(self._start_norm.tolist(), now, strict=True), strict=True))

    @torch.no_grad()
    def _write(self, signed_norm: Tensor) -> None:
        torch._foreach_copy_(self._tensors, self._start)
        torch._foreach_mul_(self._tensors, list((signed_norm / self._start_norm).unbind()))
