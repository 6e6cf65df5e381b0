"""Kinds of layers: those with weights, and normalizations.

Includes the special cases of timm, torchvision and transformers that torch's classes do not reveal.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

WEIGHT_LAYERS = (nn.Linear, _ConvNd, nn.MultiheadAttention)
NORM_LAYERS = (_NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
"""BatchNorm and InstanceNorm are a `_NormBase`."""

# Linear layers that are not `nn.Linear`, by library (which need not be installed) and class: their weight is
# (inputs, outputs). Hugging Face's GPT and GPT-2 use `Conv1D`, whose weight is as in OpenAI's code.
_LINEAR_INPUTS_FIRST = {("transformers", "Conv1D")}
# timm's class-attention blocks, in CaiT and XCiT.
_CLASS_ATTENTION = {("timm", "LayerScaleBlockClassAttn"), ("timm", "ClassAttentionBlock")}


def is_weight_layer(module: nn.Module) -> bool:
    return isinstance(module, WEIGHT_LAYERS) or is_linear_inputs_first(module)


def is_linear(module: nn.Module) -> bool:
    """Return whether a module is a linear layer, whatever the order of inputs and outputs in its weight."""
    return isinstance(module, nn.Linear) or is_linear_inputs_first(module)


def is_linear_inputs_first(module: nn.Module) -> bool:
    return any(map(stores_inputs_first, type(module).__mro__))


def output_dimension(layer: nn.Module) -> int | None:
    """Return the dimension of a layer's weight that has one index per output; None if there is none."""
    if isinstance(layer, _ConvNd) and layer.transposed:
        is_depthwise = layer.in_channels == layer.out_channels == layer.groups
        return 1 if layer.groups == 1 else 0 if is_depthwise else None
    return 1 if is_linear_inputs_first(layer) else 0


def stores_inputs_first(kind: type) -> bool:
    """Return whether a class is a linear layer whose weight is (inputs, outputs)."""
    return (kind.__module__.partition(".")[0], kind.__name__) in _LINEAR_INPUTS_FIRST


def is_class_attention(module: nn.Module) -> bool:
    kind = type(module)
    return (kind.__module__.partition(".")[0], kind.__name__) in _CLASS_ATTENTION


def is_written_out_rms_norm(module: nn.Module) -> bool:
    """Return whether a module is a custom RMSNorm over the last dimension, with a gain.

    Such classes are recognized by their names: transformers has one for each Llama, Gemma and so on, timm has RmsNorm.
    """
    gains = [tuple(parameter.shape) for parameter in module.parameters()]
    named = type(module).__name__.lower().endswith("rmsnorm") and not isinstance(module, NORM_LAYERS)
    return named and not any(module.children()) and len(gains) == 1 and len(gains[0]) == 1


def is_norm_over_channels_of_images(norm: nn.Module) -> bool:
    """Return whether a normalization over features takes images (N, C, H, W), whose features are their channels.

    So do LayerNorm2d in timm and torchvision, recognized by name, and ConvNeXt's norm in transformers, by an attribute.
    """
    return "2d" in type(norm).__name__ or getattr(norm, "data_format", None) == "channels_first"
