"""Fixup's scalars: a multiplier at the end of each residual branch, biases before layers."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.conv import _ConvNd

from initbench.architectures.scalars import ScalarBias, ScalarMultiplier
from initbench.registry import register_scheme
from initbench.schemes.branch_ends import branch_ends, ended, required_branches
from initbench.schemes.replacing import in_order, norm_replacements, replace_modules, take_over_gates
from initbench.structure.find import Structure
from initbench.structure.kinds import is_linear


@register_scheme(
    "fixup",
    instead_of_norm=True,
    keeps_function=True,
    brings_biases=True,
    reference="Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, section 3.2, rule 3",
)
def fixup(model: nn.Module, structure: Structure) -> nn.Module:
    """A scalar bias replaces each norm and precedes each layer but the first; a multiplier ends each branch.

    The multiplier comes before the bias if a branch ends in a normalization, as in the authors' code. Multipliers start
    at 1, biases at 0. If a branch is already multiplied by a scalar, that scalar is its multiplier; other gates, such
    as LayerScale's, are set to 1. Layers whose weight is used without calling them, as in some attentions, have no
    bias. A model whose branches all have a multiplier and that adds scalar biases is already Fixup's and gets none.

    Args:
        model: is changed.
        structure: the model's structure.

    Raises:
        ArgumentError: the model has a normalization of another kind, no residual branches are found, or one ends in no
            module that a multiplier could follow.
    """
    without = take_over_gates(model, structure, required_branches(model, structure), 1.0)
    ends = branch_ends(model, without)
    replacements = norm_replacements(model, lambda _: ScalarBias())
    bare = structure.layers if without or not structure.scalar_biases else ()
    layers = [model.get_submodule(layer.name) for layer in bare if layer.called]
    for layer in [layer for layer in layers if is_linear(layer) or isinstance(layer, _ConvNd)][1:]:
        replacements[layer] = in_order(bias=ScalarBias(), layer=layer)
    for end in ends:
        now = replacements.get(end, end)
        if isinstance(now, ScalarBias):  # as in the authors' code, whose last bias follows the multiplier
            replacements[end] = in_order(multiplier=ScalarMultiplier(), bias=now)
        else:
            replacements[end] = ended(end, now, ScalarMultiplier(), "multiplier")
    replace_modules(model, replacements)
    return model
