"""Weight normalization: every weight as a gain times a direction."""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrizations import weight_norm as normalize
from torch.nn.utils.parametrize import is_parametrized

from initbench.errors import ArgumentError
from initbench.registry import register_scheme
from initbench.schemes.replacing import add_biases, attention_layers, norm_replacements, replace_modules
from initbench.structure.find import Structure
from initbench.structure.kinds import is_linear, output_dimension


@register_scheme(
    "weight_norm",
    instead_of_norm=True,
    keeps_function=True,
    reference="Salimans & Kingma, Weight Normalization, NeurIPS 2016, section 2; the classifier is linear as in Arpit, "
    "Campos & Bengio, How to Initialize your Network?, NeurIPS 2019",
)
def weight_norm(model: nn.Module, structure: Structure, keep_norms: bool = False) -> nn.Module:
    """Norms are removed, convolutions get biases, and all weights but the heads' are g·v/‖v‖, with one g per output.

    Args:
        model: is changed.
        structure: the model's structure.
        keep_norms: whether norms stay and convolutions get no biases; in a suite, use the scheme
            weight_norm_beside_norm.

    Raises:
        ArgumentError: the model has a normalization of another kind, a weight that has a row of zeros or is shared, or
            a transposed convolution with groups.
    """
    if not keep_norms:
        replace_modules(model, norm_replacements(model, lambda _: nn.Identity()))
        add_biases(model)
    _normalize(model, structure)
    return model


@register_scheme(
    "weight_norm_beside_norm",
    keeps_function=True,
    includes="weight_norm",
    reference="Salimans & Kingma, Weight Normalization, NeurIPS 2016, section 2",
)
def weight_norm_beside_norm(model: nn.Module, structure: Structure) -> nn.Module:
    """All weights but the heads' are g·v/‖v‖, with one g per output; all else stays: weight_norm with keep_norms.

    Args:
        model: is changed.
        structure: the model's structure.

    Raises:
        ArgumentError: the model has a weight that has a row of zeros or is shared, or a transposed convolution with
            groups.
    """
    return weight_norm(model, structure, keep_norms=True)


def _normalize(model: nn.Module, structure: Structure) -> None:
    """Normalize the weights of all layers but the heads; a row of zeros or a shared weight raises an ArgumentError."""
    within_attention = attention_layers(model)
    names = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    for name, module in list(model.named_modules()):
        wanted = (is_linear(module) or isinstance(module, _ConvNd)) and name not in structure.heads
        if not wanted or module in within_attention or is_parametrized(module, "weight"):
            continue
        weight = module.get_parameter("weight")
        if names[id(weight)] > 1:
            raise ArgumentError(f"{name}.weight is shared with another module")
        outputs = output_dimension(module)
        if outputs is None:
            raise ArgumentError(f"{name} is a transposed convolution with groups, whose weight has no row per output")
        # On the meta device there are no values.
        if not weight.is_meta and bool(torch.norm_except_dim(weight.detach(), 2, outputs).eq(0).any()):
            raise ArgumentError(f"{name}.weight has a row of zeros, which has no direction")
        normalize(module, dim=outputs)
