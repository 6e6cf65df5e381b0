"""SkipInit's gates: a scalar at the end of each residual branch."""

from __future__ import annotations

from torch import nn

from initbench.architectures.scalars import ScalarMultiplier
from initbench.registry import register_scheme
from initbench.schemes.branch_ends import branch_ends, ended, required_branches
from initbench.schemes.replacing import add_biases, norm_replacements, replace_modules, take_over_gates
from initbench.structure.find import Structure


@register_scheme(
    "skipinit",
    instead_of_norm=True,
    reference="De & Smith, Batch Normalization Biases Residual Blocks Towards the Identity Function, NeurIPS 2020, "
    "section 4",
)
def skipinit(model: nn.Module, structure: Structure) -> nn.Module:
    """Norms are removed, convolutions get biases, and a scalar gate α, initially 0, ends each residual branch.

    ReZero (Bachlechner et al., 2021) has the same gate. If a branch is already multiplied by a scalar, as in NFNets,
    that scalar is α; other gates, such as LayerScale's, are set to 1.

    Args:
        model: is changed.
        structure: the model's structure.

    Raises:
        ArgumentError: the model has a normalization of another kind, no residual branches are found, or one ends in no
            module that a gate could follow.
    """
    ends = branch_ends(model, take_over_gates(model, structure, required_branches(model, structure), 0.0))
    replacements = norm_replacements(model, lambda _: nn.Identity())
    for end in ends:
        replacements[end] = ended(end, replacements.get(end, end), ScalarMultiplier(0.0), "multiplier")
    add_biases(model)
    replace_modules(model, replacements)
    return model
