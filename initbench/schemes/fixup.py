"""Fixup's scalars: a multiplier at the end of each residual branch, biases before layers."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.conv import _ConvNd

from initbench.architectures.scalars import ScalarBias, ScalarMultiplier, branch_multiplier
from initbench.architectures.structure import Structure  # noqa: TC001 - the registry evaluates the annotations
from initbench.registry import register_scheme
from initbench.schemes.attention import attention_layers
from initbench.schemes.branch_ends import branch_ends, ended, required_branches
from initbench.schemes.norms import norm_replacements
from initbench.schemes.replacing import in_order, replace_modules


@register_scheme(
    "fixup",
    instead_of_norm=True,
    keeps_function=True,
    reference="Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, section 3.2, rule 3",
)
def fixup(model: nn.Module, structure: Structure) -> nn.Module:
    """A scalar bias in the place of each norm and before each layer but the first, a multiplier behind each branch.

    The multiplier comes before the bias where a branch ends in a normalization, as in the authors' code. Multipliers
    start at 1, biases at 0.

    Raises:
        ValueError: the model has a normalization of another kind, no residual branches are found, or one ends in no
            module that a multiplier could follow.
    """
    branches = required_branches(model, structure)
    ends = branch_ends(model, [branch for branch in branches if branch_multiplier(model, branch) is None])
    replacements = norm_replacements(model, lambda _: ScalarBias())
    within_attention = attention_layers(model)
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | _ConvNd) and m not in within_attention]
    for layer in layers[1:]:
        replacements[layer] = in_order(bias=ScalarBias(), layer=layer)
    for end in ends:
        now = replacements.get(end, end)
        if isinstance(now, ScalarBias):  # as in the authors' code, whose last bias follows the multiplier
            replacements[end] = in_order(multiplier=ScalarMultiplier(), bias=now)
        else:
            replacements[end] = ended(end, now, ScalarMultiplier(), "multiplier")
    replace_modules(model, replacements)
    return model
