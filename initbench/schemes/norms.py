"""Normalizations, taken out of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from initbench.schemes.replacing import in_order
from initbench.structure.kinds import NORM_LAYERS, is_written_out_rms_norm

if TYPE_CHECKING:
    from collections.abc import Callable


def norm_replacements(model: nn.Module, make: Callable[[nn.Module], nn.Module]) -> dict[nn.Module, nn.Module]:
    """Return what takes the place of each normalization: BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm.

    RMSNorms may be written out, see `kinds.is_written_out_rms_norm`. What timm's classes do after the normalization,
    such as an activation, stays.

    Args:
        model: any; it stays as it is.
        make: returns what takes the place of one normalization.

    Raises:
        ValueError: the model is one, or has one of a kind that is not known.
    """
    found: dict[nn.Module, nn.Module] = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        if isinstance(module, NORM_LAYERS) or is_written_out_rms_norm(module):
            # timm's classes such as BatchNormAct2d are a normalization with further modules, which follow it.
            after = {name: part for name, part in module.named_children() if not isinstance(part, nn.Identity)}
            found[module] = in_order(bias=make(module), **after) if after else make(module)
        elif "norm" in kind.lower() and not any(module.children()) and "parametrizations" not in name:
            raise ValueError(f"{name} is a {kind}, which is none of the normalizations that can be taken out")
    if model in found:
        raise ValueError(f"the model itself is a normalization, {type(model).__name__}")
    return found
