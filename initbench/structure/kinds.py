"""Kinds of layers: those with weights, and normalizations."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

WEIGHT_LAYERS = (nn.Linear, _ConvNd, nn.MultiheadAttention)
NORM_LAYERS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""BatchNorm and InstanceNorm are a `_NormBase`."""

_LINEAR_INPUTS_FIRST = {("transformers", "Conv1D")}  # libraries and classes, which need not be installed


def is_linear_inputs_first(module: nn.Module) -> bool:
    """Return whether a module is a linear layer, though no `nn.Linear`, with a weight of (inputs, outputs).

    Such is Hugging Face's `Conv1D`, of which GPT and GPT-2 are made: its weight is that of OpenAI's code.
    """
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in _LINEAR_INPUTS_FIRST for kind in type(module).mro()
    )


def is_linear(module: nn.Module) -> bool:
    """Return whether a module is a linear layer, in whatever order its weight has inputs and outputs."""
    return isinstance(module, nn.Linear) or is_linear_inputs_first(module)
