"""The scales that GradInit learns, and their Adam."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError

if TYPE_CHECKING:
    from collections.abc import Sequence

BETAS, ADAM_EPS = (0.9, 0.999), 1e-8
GRADIENT, LOSS = "gradient norm", "loss"


class Scales:
    """The scale of each tensor and its Adam.

    All scales are one vector on the model's device, so that no step waits for the device tensor by tensor. A scale that
    has reached 0 stays there, as in the authors' code, which passes over every tensor whose norm is 0: what it scaled
    has no direction left.

    Args:
        trainable: the tensors by name; those of zeros are left out.
        tau: the learning rate.
        floor: least scale of a weight.
        clip: of each derivative.

    Raises:
        InitializationError: there is nothing to scale, or a tensor is not finite.
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
        """Return the derivative for each scale, given those for all trainable tensors, None for zero."""
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
        # The second moment has seen the derivatives of both objectives, and is corrected for as many.
        mean = first / (1 - BETAS[0] ** self._count[branch])
        square = self._second / (1 - BETAS[1] ** sum(self._count.values()))
        self._before = self._scale
        moved = self._scale - self._tau * mean / (square.sqrt() + ADAM_EPS)
        self._scale = torch.where(self._scale == 0, self._scale, torch.maximum(moved, self._floor))
        self._write()

    def back(self) -> None:
        """Undo the last step."""
        self._scale = self._before
        self._write()

    def values(self) -> dict[str, float]:
        """Return the scales by name."""
        return dict(zip(self.names, self._scale.tolist(), strict=True))

    @torch.no_grad()
    def _write(self) -> None:
        torch._foreach_copy_(self._tensors, self._start)
        torch._foreach_mul_(self._tensors, list(self._scale.unbind()))
