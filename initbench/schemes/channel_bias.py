"""A bias per channel instead of each normalization."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from initbench.errors import ArgumentError
from initbench.registry import register_scheme
from initbench.schemes.replacing import norm_replacements, replace_modules
from initbench.structure.kinds import is_norm_over_channels_of_images, is_written_out_rms_norm


class ChannelBias(nn.Module):
    """Adds a learnable bias to each channel of inputs (N, C, ...), or, if `last`, to the last dimensions."""

    def __init__(self, bias: Tensor, *, last: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)
        self._last = last

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.bias if self._last else self.bias.view(-1, *[1] * (x.dim() - 2)))


@register_scheme(
    "channel_bias",
    brings_biases=True,
    reference="Zhu et al., GradInit, NeurIPS 2021, appendix A.1, the networks without BatchNorm",
)
def channel_bias(model: nn.Module) -> nn.Module:
    """A learnable bias per channel replaces each norm; it starts at the norm's own bias, or 0 without one.

    Architectures with a choice of norms are built with the norm that it replaces.

    Args:
        model: is changed.

    Raises:
        ArgumentError: the model has no normalization, has an unsupported one, or is itself a normalization.
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    replacements = norm_replacements(model, partial(_bias_of, like=like))
    if not replacements:
        raise ArgumentError(f"{type(model).__name__} has no BatchNorm, InstanceNorm, GroupNorm, LayerNorm or RMSNorm")
    replace_modules(model, replacements, convert=False)
    return model


def remove_normalization(model: nn.Module) -> nn.Module:
    """Return a copy of a model with a learnable bias instead of each normalization: scheme ``channel_bias``.

    BatchNorm, InstanceNorm, GroupNorm, LayerNorm and RMSNorm are replaced by a bias for the same channels, which starts
    at the normalization's own bias, or 0 if it has none. Further operations in timm's classes, such as an activation
    after the normalization, stay. All other values are the model's.

    Args:
        model: any module; it is not changed.

    Raises:
        ArgumentError: the model has no normalization, has an unsupported one, or is itself a normalization.
    """
    return channel_bias(deepcopy(model))


def _bias_of(norm: Any, like: Tensor) -> nn.Module:
    """Return the bias instead of a norm; if the norm has no parameters, of the type and device of `like`."""
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        shape = tuple(norm.normalized_shape)
    elif is_written_out_rms_norm(norm):
        shape = tuple(norm.weight.shape)
    else:
        shape = (norm.num_features,) if isinstance(norm, _NormBase) else (norm.num_channels,)
    bias = getattr(norm, "bias", None)
    like = next((p for p in norm.parameters(recurse=False)), like)
    values = torch.zeros(shape, device=like.device, dtype=like.dtype) if bias is None else bias.detach().clone()
    over_last = isinstance(norm, nn.LayerNorm | nn.RMSNorm) or is_written_out_rms_norm(norm)
    return ChannelBias(values, last=over_last and not is_norm_over_channels_of_images(norm))
