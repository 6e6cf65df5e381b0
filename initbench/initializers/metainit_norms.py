"""The norms that MetaInit tunes, and the optimizers that move them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError

NormOptimizer = Literal["signsgd", "adam", "sgd"]
Parametrization = Literal["norm", "scale"]
BETAS, ADAM_EPS = (0.9, 0.999), 1e-8
FLOOR = 0.01
"""Least scale of a weight, of GradInit's authors."""


class Norms:
    """The norms of the tuned tensors and the optimizer that moves them.

    All norms are one vector on the model's device, and so is the optimizer's state, so that no step waits for the
    device. A tensor is always its start times norm · direction / norm of the start. What the optimizer moves is the
    norm, or the ``scale``, its ratio to the norm of the start, which stays at or above `FLOOR`, of a bias at or above
    0.
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
                    f"metainit: {name} has norm 0: it has no direction to be scaled along; zeros: keep leaves it as it "
                    "is"
                )
            if not math.isfinite(norm):
                raise InitializationError(f"metainit: {name} has norm {norm:g}: it has no direction to be scaled along")
        # What a move of 1 is in norm, and the least norm; None where a norm may fall below 0 and flip the sign.
        self._unit = self._start_norm if parametrization == "scale" else torch.ones_like(self._start_norm)
        self._floor: Tensor | None = None
        if parametrization == "scale":
            floors = [0.0 if "bias" in name.rpartition(".")[2] else FLOOR for name in self._names]
            self._floor = self._start_norm.new_tensor(floors) * self._start_norm
        moved = torch.ones_like(self._start_norm) if parametrization == "scale" else self._start_norm
        self._optimizer: _SignSGD | _SGD | _Adam
        if optimizer == "signsgd":
            self._optimizer = _SignSGD(moved, lr, momentum)
        else:
            self._optimizer = _Adam(moved, lr, clip) if optimizer == "adam" else _SGD(moved, lr, momentum, clip)
        self._norm = self._start_norm.clone()
        self._direction = torch.ones_like(self._norm)
        self._flips = torch.zeros_like(self._norm)
        self._finite_steps = torch.zeros_like(self._norm[0])
        self._finite = torch.ones_like(self._norm[0], dtype=torch.bool)
        self._last_finite = self._norm.clone()

    @torch.no_grad()
    def step(self, gq: Tensor, slopes: Sequence[Tensor | None]) -> None:
        """Move the norms once and write the tensors; from the first GQ or move that is not finite on, move nothing."""
        zero = torch.zeros_like(gq)
        # d GQ / d norm = ⟨w, ∇GQ⟩ / ‖w‖ (Salimans & Kingma, 2016, equation (3)), here times ‖start‖.
        pairs = zip(self._start, slopes, strict=True)
        slope = self._direction * torch.stack([zero if g is None else (w * g).sum() for w, g in pairs])
        move = self._optimizer.move(slope) * self._unit
        self._finite &= torch.isfinite(gq) & torch.isfinite(move).all()
        self._finite_steps += self._finite
        self._last_finite = torch.where(self._finite, self._direction * self._norm, self._last_finite)
        moved = torch.where(self._finite, self._norm + move, self._norm)
        if self._floor is not None:  # a bias of norm 0 has no direction left and stays there
            moved = torch.where(self._norm == 0, self._norm, torch.maximum(moved, self._floor))
        self._flips += moved < 0
        self._direction = torch.where(moved < 0, -self._direction, self._direction)
        self._norm = moved.abs()
        self._write(self._direction * self._norm)

    def stopped(self) -> bool:
        """Return whether a GQ or a move was not finite; waits for the device."""
        return not bool(self._finite)

    def finish(self) -> None:
        """Write the last tensors at which all was finite, if something was not."""
        if self.stopped():
            self._direction, self._norm = self._last_finite.sign(), self._last_finite.abs()
            self._write(self._last_finite)

    @property
    def finite_steps(self) -> int:
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


class _SignSGD:
    """signSGD with momentum, as in the paper's listing: a sign flip of a tensor leaves its velocity as it is.

    Each optimizer is given what it moves as it is at the start: the norms, or scales of 1. Its method `move` takes the
    derivatives for the norms, times the norms at the start, and returns by how much the norms, or scales, move.
    """

    def __init__(self, moved: Tensor, lr: float, momentum: float) -> None:
        self._lr, self._momentum = lr, momentum
        self._velocity = torch.zeros_like(moved)

    def move(self, slope: Tensor) -> Tensor:
        self._velocity = self._momentum * self._velocity - self._lr * slope.sign()
        return self._velocity


class _SGD:
    """Gradient descent with momentum, v ← μv − lr·g; a sign flip of a tensor leaves its velocity as it is."""

    def __init__(self, moved: Tensor, lr: float, momentum: float, clip: float | None) -> None:
        self._start, self._lr, self._momentum, self._clip = moved, lr, momentum, clip
        self._velocity = torch.zeros_like(moved)

    def move(self, slope: Tensor) -> Tensor:
        self._velocity = self._momentum * self._velocity - self._lr * _clipped(slope / self._start, self._clip)
        return self._velocity


class _Adam:
    """Adam with bias correction; a sign flip of a tensor leaves its moments as they are.

    The square root of the second moment is kept in its place: the squares of derivatives, which grow with GQ, would
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
