"""The scales that GradInit learns, one per parameter tensor, and the Adam that learns them from two objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from initbench.errors import InitializationError
from initbench.structure.kinds import NORM_LAYERS, is_written_out_rms_norm

_ADAM_EPS = 1e-8
GRADIENT, LOSS = "gradient norm", "loss"
SecondMoment = Literal["shared", "own"]


class Scales:
    """The scale of each tensor, and their Adam optimizer.

    All scales are one vector on the model's device, so that no step waits for the device tensor by tensor. A scale that
    reaches 0 stays there because its tensor has lost its direction; the authors' code likewise passes over tensors of
    norm 0. Tensors of zeros are left out. `floor` is the least scale of a weight; for biases it is 0. `ceilings` are
    the largest scales by name, for tensors that have one.
    """

    def __init__(
        self,
        trainable: dict[str, nn.Parameter],
        tau: float,
        betas: tuple[float, ...],
        second_moment: SecondMoment,
        floor: float,
        ceilings: Mapping[str, float],
        clip: float | None,
    ) -> None:
        norms = torch.stack([torch.linalg.vector_norm(p.detach()) for p in trainable.values()]).tolist()
        for name, norm in zip(trainable, norms, strict=True):
            if not math.isfinite(norm):
                raise InitializationError(f"gradinit: {name} is not finite")
        self.names = [name for name, norm in zip(trainable, norms, strict=True) if norm > 0]
        self.zeros = [name for name, norm in zip(trainable, norms, strict=True) if norm == 0]
        if not self.names:
            raise InitializationError("gradinit: every trainable parameter is zero: there is nothing to scale")
        self._indices = [index for index, norm in enumerate(norms) if norm > 0]
        self._tensors: list[Tensor] = [trainable[name] for name in self.names]
        self._start = [tensor.detach().clone() for tensor in self._tensors]
        self._tau, self._betas, self._clip = tau, betas, clip
        like = self._start[0]
        self._floor = like.new_tensor([0.0 if is_bias(name) else floor for name in self.names])
        self._ceiling = like.new_tensor([ceilings.get(name, math.inf) for name in self.names])
        self._scale = torch.ones_like(self._floor)
        self._before = self._scale
        self._first = {GRADIENT: torch.zeros_like(self._scale), LOSS: torch.zeros_like(self._scale)}
        self._shared = second_moment == "shared"
        of_gradient = torch.zeros_like(self._scale)
        self._second = {GRADIENT: of_gradient, LOSS: of_gradient if self._shared else torch.zeros_like(self._scale)}
        self._count = {GRADIENT: 0, LOSS: 0}

    def slope(self, slopes: Sequence[Tensor | None]) -> Tensor:
        """Return the derivative for each scale from the derivatives for all trainable tensors (None for zero)."""
        zero = self._scale.new_zeros(())
        pairs = zip(self._start, (slopes[index] for index in self._indices), strict=True)
        return torch.stack([zero if g is None else (w * g).sum() for w, g in pairs])

    @torch.no_grad()
    def step(self, branch: str, slope: Tensor) -> None:
        """Move the scales once along the clipped derivatives of an objective."""
        if self._clip is not None:
            slope = slope.clamp(-self._clip, self._clip)
        self._count[branch] += 1
        beta1, beta2 = self._betas
        first = self._first[branch].lerp_(slope, 1 - beta1)
        second = self._second[branch].mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        mean = first / (1 - beta1 ** self._count[branch])
        # A shared second moment averages the derivatives of both objectives, so its correction counts both.
        square = second / (1 - beta2 ** (sum(self._count.values()) if self._shared else self._count[branch]))
        self._before = self._scale
        moved = self._scale - self._tau * mean / (square.sqrt() + _ADAM_EPS)
        bounded = torch.minimum(torch.maximum(moved, self._floor), self._ceiling)
        self._scale = torch.where(self._scale == 0, self._scale, bounded)
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


def norm_ceilings(model: nn.Module, ceiling: float | None) -> dict[str, float]:
    """Return the ceiling of each weight of a norm, by name; empty if there is none."""
    if ceiling is None:
        return {}
    norms = ((n, m) for n, m in model.named_modules() if isinstance(m, NORM_LAYERS) or is_written_out_rms_norm(m))
    return {n: ceiling for prefix, norm in norms for n, _ in norm.named_parameters(prefix) if not is_bias(n)}


def is_bias(name: str) -> bool:
    return "bias" in name.rpartition(".")[2]
