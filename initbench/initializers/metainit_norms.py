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
"""Least scale of a weight in the code of GradInit's authors."""


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


class _SignSGD:
    """signSGD with momentum, as in the paper's listing; a sign flip of a tensor leaves its velocity unchanged.

    Every optimizer is given the initial values of what it moves: the norms, or scales of 1. `move` takes the
    derivatives for the norms, times the initial norms, and returns the change of the norms or scales.
    """

    def __init__(self, moved: Tensor, lr: float, momentum: float) -> None:
        self._lr, self._momentum = lr, momentum
        self._velocity = torch.zeros_like(moved)

    def move(self, slope: Tensor) -> Tensor:
        self._velocity = self._momentum * self._velocity - self._lr * slope.sign()
        return self._velocity


class _SGD:
    """Gradient descent with momentum, v ← μv − lr·g; a sign flip of a tensor leaves its velocity unchanged."""

    def __init__(self, moved: Tensor, lr: float, momentum: float, clip: float | None) -> None:
        self._start, self._lr, self._momentum, self._clip = moved, lr, momentum, clip
        self._velocity = torch.zeros_like(moved)

    def move(self, slope: Tensor) -> Tensor:
        self._velocity = self._momentum * self._velocity - self._lr * _clipped(slope / self._start, self._clip)
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
