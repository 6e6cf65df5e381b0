"""Weights under weight normalization, w = g·v/‖v‖, as `torch.nn.utils.parametrizations.weight_norm` makes them.

Salimans & Kingma, Weight Normalization, NeurIPS 2016, equation (2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import is_parametrized

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class WeightNormalized:
    """A weight w = g·v/‖v‖ by its parameters.

    Attributes:
        gain: g, of the weight's shape but for ones in all dimensions that a norm is taken over.
        direction: v, of the weight's shape; its length has no effect on w.
        dim: the dimension of w that has a norm for each index, such as 0 for the outputs; -1 for one norm in all.
    """

    gain: nn.Parameter
    direction: nn.Parameter
    dim: int

    @torch.no_grad()
    def set_weight(self, w: Tensor) -> None:
        """Set v = w and g = ‖w‖, so that the weight is w up to rounding.

        Where ‖w‖ is 0 there is no direction, and v = 0 would make the weight NaN: there g is 0 and v stays as it is,
        or is 1 if it was 0.

        Args:
            w: of the weight's shape.
        """
        w = w.to(self.direction)
        zero = self._norms(w) == 0
        kept = torch.where(self._norms(self.direction) == 0, 1.0, self.direction)
        self.direction.copy_(torch.where(zero, kept, w))
        self.gain.copy_(torch.where(zero, 0.0, self._norms(self.direction)))

    def _norms(self, w: Tensor) -> Tensor:
        norms: Tensor = torch.norm_except_dim(w, 2, self.dim)
        return norms


def weight_normalized(module: nn.Module, name: str) -> WeightNormalized | None:
    """Return a weight of a module by its parameters; None where weight normalization, and it alone, does not make it.

    Args:
        module: any.
        name: of the weight in the module, such as ``weight``.
    """
    if not is_parametrized(module, name):
        return None
    stages: Any = module.get_submodule(f"parametrizations.{name}")
    if len(stages) != 1 or not isinstance(stages[0], _WeightNorm):
        return None
    return WeightNormalized(stages.original0, stages.original1, stages[0].dim)


def weight_normalized_weights(model: nn.Module) -> Iterator[tuple[str, WeightNormalized]]:
    """Yield the weight-normalized weights of a model, by the names that they would have as plain parameters."""
    for prefix, module in model.named_modules():
        parametrized: Any = module.parametrizations if is_parametrized(module) else ()
        for name in parametrized:
            weight = weight_normalized(module, name)
            if weight is not None:
                yield f"{prefix}.{name}".removeprefix("."), weight
